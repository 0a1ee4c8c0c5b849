import type { FunctionComponent } from 'preact';
import { useMemo } from 'preact/hooks';
import type { KubeObject } from '../../api/client.ts';
import { apiVersionOf, pathOf, type ApiResource } from '../../api/resources.ts';
import { offeredBy } from '../../api/server-features.ts';
import { useApp } from '../../app/context.ts';
import { useNewestResources, useObjects } from '../../app/hooks.ts';
import { groupOfSegment, objectLink, tableLink } from '../../app/links.ts';
import { Connection } from '../../components/connection.tsx';
import { absenceText } from '../../components/store-state.ts';
import { Tabs } from '../../components/tabs.tsx';
import { text } from '../../text/en.ts';
import type { ViewProps } from '../view-props.ts';
import { Actions } from './actions.tsx';
import { ChangesTab } from './changes/changes-tab.tsx';
import { DeletionCard } from './deletion/deletion-card.tsx';
import { EventsTab } from './events-tab.tsx';
import { FieldsTab } from './fields-tab.tsx';
import { LogsTab } from './logs/logs-tab.tsx';
import { RevisionsTab } from './revisions/revisions-tab.tsx';
import { SchedulingTab } from './scheduling/scheduling-tab.tsx';
import { SummaryTab } from './summary-tab.tsx';
import { TerminalTab } from './terminal/terminal-tab.tsx';
import { TraceTab } from './trace/trace-tab.tsx';
import { isWorkload } from './workload-kinds.ts';
import { YamlTab } from './yaml-tab.tsx';

export interface TabProps {
  readonly resource: ApiResource;
  readonly object: KubeObject;
}

const { tabs: names } = text.object;
const revisioned = new Set(['Deployment', 'StatefulSet', 'DaemonSet']);

interface ObjectTab {
  readonly id: string;
  readonly label: string;
  readonly Component: FunctionComponent<TabProps>;
  readonly onlyOarlock?: boolean;
  isShown(resource: ApiResource): boolean;
}

/** The tabs of an object's page, with the condition under which each is shown. */
const tabs: readonly ObjectTab[] = [
  { id: 'summary', label: names.summary, Component: SummaryTab, isShown: () => true },
  { id: 'yaml', label: names.yaml, Component: YamlTab, isShown: () => true },
  { id: 'events', label: names.events, Component: EventsTab, isShown: () => true },
  { id: 'scheduling', label: names.scheduling, Component: SchedulingTab, onlyOarlock: true, isShown: ({ group, kind }: ApiResource) => group === '' && kind === 'Pod' },
  { id: 'trace', label: names.trace, Component: TraceTab, onlyOarlock: true, isShown: () => true },
  { id: 'logs', label: names.logs, Component: LogsTab, isShown: isWorkload },
  { id: 'terminal', label: names.terminal, Component: TerminalTab, isShown: isWorkload },
  { id: 'revisions', label: names.revisions, Component: RevisionsTab, isShown: ({ kind }: ApiResource) => revisioned.has(kind) },
  { id: 'changes', label: names.changes, Component: ChangesTab, isShown: ({ verbs }: ApiResource) => verbs.includes('list') },
  { id: 'fields', label: names.fields, Component: FieldsTab, isShown: () => true },
];

/** The page of one object, live by a watch of this object. */
export function View({ params }: ViewProps) {
  const { resources, features } = useApp();
  const group = groupOfSegment(params['group'] ?? '');
  const { version = '', resource: plural = '', name = '', tab = 'summary' } = params;
  const namespace = params['namespace'] === '-' ? '' : (params['namespace'] ?? '');
  const known = resources.find((each) => each.group === group && each.resource === plural);
  useNewestResources(`${group}/${plural}`, known === undefined);
  const resource: ApiResource = known
    ? { ...known, version }
    : { group, version, resource: plural, kind: plural, namespaced: namespace !== '', verbs: [], shortNames: [], subresources: [] };
  const store = useObjects(pathOf(resource, namespace), { fieldSelector: `metadata.name=${name}` });
  const item = store.items[0];
  // items of lists have no type
  const object = useMemo(() => item && { apiVersion: apiVersionOf(resource), kind: resource.kind, ...item }, [item, resource.kind]);
  const shown = offeredBy(features, tabs).filter(({ isShown }) => isShown(resource));
  const current = shown.find(({ id }) => id === tab) ?? shown[0];
  return (
    <section class="object-view">
      <header class="view-head">
        <h1>
          <a class="kind" href={tableLink(resource)}>
            {resource.kind}
          </a>{' '}
          {namespace !== '' && <span class="quiet-text">{namespace}/</span>}
          {name}
        </h1>
        <Connection state={store.state} reason={store.reason} />
        <span class="grow" />
        {object && <Actions resource={resource} object={object} />}
      </header>
      {object?.metadata.deletionTimestamp !== undefined && <DeletionCard object={object} />}
      <Tabs
        label={resource.kind}
        current={current?.id ?? ''}
        tabs={shown.map(({ id, label }) => ({ id, label, href: objectLink(resource, { namespace, name }, id) }))}
      />
      {object === undefined ? (
        <p class="empty" role="status">
          {absenceText([store], text.object.notFound)}
        </p>
      ) : (
        current && <current.Component key={`${current.id} ${object.metadata.uid}`} resource={resource} object={object} />
      )}
    </section>
  );
}

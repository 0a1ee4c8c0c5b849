import type { KubeObject } from '../../api/client.ts';
import { resourceOfKind } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { useObjects } from '../../app/hooks.ts';
import { objectLink, tableLink } from '../../app/links.ts';
import { link } from '../../app/router.ts';
import type { HealthState } from '../../components/health-state.ts';
import { absenceText, type StoreState } from '../../components/store-state.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { healthOf } from '../object/health.ts';

const kinds = [
  { apiVersion: 'apps/v1', kind: 'Deployment', resource: { group: 'apps', version: 'v1', resource: 'deployments' } },
  { apiVersion: 'apps/v1', kind: 'StatefulSet', resource: { group: 'apps', version: 'v1', resource: 'statefulsets' } },
  { apiVersion: 'apps/v1', kind: 'DaemonSet', resource: { group: 'apps', version: 'v1', resource: 'daemonsets' } },
  { apiVersion: 'batch/v1', kind: 'Job', resource: { group: 'batch', version: 'v1', resource: 'jobs' } },
] as const;
const maxWorkloads = 2_000;
const shownUnhealthy = 10;

type WorkloadKind = (typeof kinds)[number];

/** The workloads by health, and the first that are not healthy. Without any, the way to create one. */
export function WorkloadsCard() {
  const stores = kinds.map(({ apiVersion, resource }) =>
    useObjects(`/apis/${apiVersion}/${resource.resource}`, {}, { maxObjects: maxWorkloads }),
  );
  const isEmpty = stores.every(({ items, state }) => state === 'live' && items.length === 0);
  return (
    <section class="card" aria-labelledby="workloads">
      <h2 id="workloads">{text.overview.workloads}</h2>
      {isEmpty && (
        <p>
          {text.overview.noWorkloads} <a href={link(['create'])}>{text.overview.createWorkload}</a>
        </p>
      )}
      <ul class="plain">
        {kinds.map((each, index) => (
          stores[index] && <KindHealth key={each.kind} workloadKind={each} store={stores[index]} />
        ))}
      </ul>
    </section>
  );
}

const labels: Readonly<Record<HealthState, string>> = {
  ok: text.overview.healthy,
  pending: text.overview.progressing,
  warning: text.overview.progressing,
  error: text.overview.failing,
  unknown: text.status.unknown,
};

interface KindHealthProps {
  readonly workloadKind: WorkloadKind;
  readonly store: StoreState & { readonly items: readonly KubeObject[] };
}
function KindHealth({ workloadKind: { apiVersion, kind, resource }, store }: KindHealthProps) {
  const { items } = store;
  const absence = absenceText([store], '');
  const { resources } = useApp();
  const judged = items.map((object) => ({ object, health: healthOf({ ...object, kind })?.health ?? 'unknown' }));
  const count = (health: HealthState) => judged.filter((each) => each.health === health).length;
  const bad = judged.filter(({ health }) => health !== 'ok').slice(0, shownUnhealthy);
  const known = resourceOfKind(resources, apiVersion, kind);
  return (
    <li>
      <a href={tableLink(resource)}>
        {kind} {absence === '' && `(${items.length}${items.length >= maxWorkloads ? '+' : ''})`}
      </a>{' '}
      {absence} {(['ok', 'pending', 'error'] as const).map((health) => count(health) > 0 && [<StatusDot key={health} health={health} label={`${labels[health]}: ${count(health)}`} />, ' '])}
      <ul class="tree">
        {bad.map(({ object, health }) => (
          <li key={object.metadata.uid}>
            <StatusDot health={health} label={labels[health]} /> <a href={objectLink(known ?? resource, object.metadata)}>{nameOf(object)}</a>
          </li>
        ))}
      </ul>
    </li>
  );
}

const nameOf = ({ metadata: { namespace, name } }: KubeObject): string => (namespace === undefined ? name : `${namespace}/${name}`);

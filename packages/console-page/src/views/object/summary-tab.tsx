import { resourceOfKind } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { useClock } from '../../app/hooks.ts';
import { objectLink } from '../../app/links.ts';
import { ageOf } from '../../components/age.ts';
import { Connection } from '../../components/connection.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { absenceText, stateOfAll } from '../../components/store-state.ts';
import { text } from '../../text/en.ts';
import { Containers } from './containers.tsx';
import { healthOf, rolloutOf, unschedulableReason } from './health.ts';
import type { TabProps } from './object-page.tsx';
import { maxOwnedPods, useOwnedObjects, type OwnedNode } from './owned-objects.ts';
import { RelatedObjects } from './related-objects.tsx';
import { isWorkload, type Pod, type Workload } from './workload-kinds.ts';

/** The objects of one owner that are listed. */
const maxShown = 100;

/** Metadata, status, and for workloads the tree of owned objects and the rollout. */
export function SummaryTab({ resource, object }: TabProps) {
  const { resources } = useApp();
  const now = useClock();
  const { metadata } = object;
  const health = healthOf(object);
  const unschedulable = resource.kind === 'Pod' ? unschedulableReason(object as Pod) : undefined;
  return (
    <div class="columns">
      <div>
        <dl class="facts">
          <div>
            <dt>{text.object.created}</dt>
            <dd>
              {metadata.creationTimestamp} ({text.time.ago(ageOf(metadata.creationTimestamp, now))})
            </dd>
          </div>
          {health && (
            <div>
              <dt>{text.object.status}</dt>
              <dd>
                <StatusDot {...health} /> {unschedulable && <a href={objectLink(resource, metadata, 'scheduling')}>{unschedulable}</a>}
              </dd>
            </div>
          )}
          {(metadata.ownerReferences ?? []).map((owner) => {
            const known = resourceOfKind(resources, owner.apiVersion, owner.kind);
            return (
              <div key={owner.uid}>
                <dt>{text.object.owners}</dt>
                <dd>
                  {known ? <a href={objectLink(known, { namespace: known.namespaced ? metadata.namespace : undefined, name: owner.name })}>{`${owner.kind} ${owner.name}`}</a> : `${owner.kind} ${owner.name}`}
                </dd>
              </div>
            );
          })}
          <Pairs title={text.object.labels} pairs={metadata.labels} />
          <Pairs title={text.object.annotations} pairs={metadata.annotations} />
          {metadata.finalizers !== undefined && metadata.finalizers.length > 0 && (
            <div>
              <dt>{text.object.finalizers}</dt>
              <dd>{metadata.finalizers.join(', ')}</dd>
            </div>
          )}
        </dl>
        <Containers resource={resource} object={object} />
        <Conditions object={object} />
      </div>
      {isWorkload(resource) && (
        <div>
          <RolloutProgress object={object} />
          <Tree object={object} />
          <RelatedObjects object={object} />
        </div>
      )}
    </div>
  );
}

function Pairs({ title, pairs }: { readonly title: string; readonly pairs: Readonly<Record<string, string>> | undefined }) {
  const entries = Object.entries(pairs ?? {});
  if (entries.length === 0) return null;
  return (
    <div>
      <dt>{title}</dt>
      <dd>
        <ul class="pairs">
          {entries.map(([key, value]) => (
            <li key={key}>
              <code>
                {key}={value.length > 200 ? `${value.slice(0, 200)}…` : value}
              </code>
            </li>
          ))}
        </ul>
      </dd>
    </div>
  );
}

function Conditions({ object }: Pick<TabProps, 'object'>) {
  const now = useClock();
  const { conditions = [] } = (object as Workload).status ?? {};
  if (!Array.isArray(conditions) || conditions.length === 0) return null;
  return (
    <>
      <h2>{text.object.conditions}</h2>
      <ul class="plain">
        {(conditions as NonNullable<NonNullable<Workload['status']>['conditions']>).map(({ type, status, reason, message, lastTransitionTime }) => (
          <li key={type}>
            <strong>{type}</strong> {status} <span class="quiet-text">{ageOf(lastTransitionTime, now)}</span> {reason} {message}
          </li>
        ))}
      </ul>
    </>
  );
}

/** The progress of the rollout, announced when it changes. */
function RolloutProgress({ object }: Pick<TabProps, 'object'>) {
  const rollout = rolloutOf(object as Workload);
  if (rollout === undefined) return null;
  const { wanted, updated, ready, isComplete, failure } = rollout;
  return (
    <section aria-labelledby="rollout">
      <h2 id="rollout">{text.workload.progress}</h2>
      <p role="status">
        <StatusDot
          health={failure === undefined ? (isComplete ? 'ok' : 'pending') : 'error'}
          label={failure ?? (isComplete ? text.workload.complete : text.workload.running)}
        />
      </p>
      <meter min={0} max={Math.max(wanted, 1)} value={ready} aria-label={text.workload.ready(ready, wanted)} />{' '}
      <span class="quiet-text">
        {text.workload.ready(ready, wanted)} · {text.workload.updated(updated, wanted)}
      </span>
    </section>
  );
}

function Tree({ object }: Pick<TabProps, 'object'>) {
  const { tree, stores, isCut } = useOwnedObjects(object);
  if (object.kind === 'Pod') return null;
  const { state, reason } = stateOfAll(stores);
  return (
    <section aria-labelledby="tree">
      <h2 id="tree">{text.object.tree}</h2>
      {isCut && <p class="quiet-text">{text.object.cut(maxOwnedPods)}</p>}
      {state === 'stopped' && <Connection state={state} reason={reason} />}
      {tree.length === 0 ? state !== 'stopped' && <p class="quiet-text">{absenceText(stores, text.object.noTree)}</p> : <Nodes nodes={tree} />}
    </section>
  );
}

function Nodes({ nodes }: { readonly nodes: readonly OwnedNode[] }) {
  const { resources } = useApp();
  return (
    <ul class="tree">
      {nodes.slice(0, maxShown).map(({ object, children }) => {
        const { metadata, kind = '', apiVersion = '' } = object;
        const known = resourceOfKind(resources, apiVersion, kind);
        const health = healthOf(object);
        const reason = unschedulableReason(object as Pod);
        return (
          <li key={metadata.uid}>
            <span class="quiet-text">{kind}</span> {known ? <a href={objectLink(known, metadata)}>{metadata.name}</a> : metadata.name}{' '}
            {health && <StatusDot {...health} />} {reason && known && <a href={objectLink(known, metadata, 'scheduling')}>{reason}</a>}
            {children.length > 0 && <Nodes nodes={children} />}
          </li>
        );
      })}
      {nodes.length > maxShown && <li class="quiet-text">{text.object.more(nodes.length - maxShown)}</li>}
    </ul>
  );
}

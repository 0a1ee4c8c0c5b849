import { useRef, useState } from 'preact/hooks';
import { errorText } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { useClock, useObjects } from '../../../app/hooks.ts';
import { ageOf } from '../../../components/age.ts';
import { DiffView } from '../../../components/diff-view.tsx';
import { absenceText } from '../../../components/store-state.ts';
import { toYaml } from '../../../components/yaml-text.ts';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { selectorText, type Workload } from '../workload-kinds.ts';
import { revisionsOf, rollBack, type Revision } from './revisions.ts';

/** The revisions of a workload. Each can be compared with the current one, and restored. */
export function RevisionsTab({ resource, object }: TabProps) {
  const { client, toast } = useApp();
  const now = useClock();
  const [compared, setCompared] = useState<string>();
  const list = useRef<HTMLOListElement>(null);
  const namespace = encodeURIComponent(object.metadata.namespace ?? '');
  const collection = resource.kind === 'Deployment' ? 'replicasets' : 'controllerrevisions';
  const labelSelector = selectorText((object as Workload).spec?.selector ?? {});
  const store = useObjects(`/apis/apps/v1/namespaces/${namespace}/${collection}`, { labelSelector });
  const revisions = revisionsOf({ ...object, kind: resource.kind }, store.items);
  const [current, ...earlier] = revisions;
  const restore = async (revision: Revision) => {
    try {
      await rollBack(client, resource, object, revision);
      // the button disappears: the restored revision becomes the current one
      list.current?.focus();
      toast('success', text.workload.rolledBack(String(revision.number)));
    } catch (error) {
      toast('error', errorText(error));
    }
  };
  if (current === undefined) return <p class="empty">{absenceText([store], text.workload.noRevisions)}</p>;
  const before = toYaml(current.template);
  return (
    <div class="tab-body">
      <ol ref={list} class="revisions" tabIndex={-1} aria-label={text.object.tabs.revisions}>
        <li>
          <strong>
            {text.workload.revision} {current.number}
          </strong>{' '}
          ({text.workload.current}) <span class="quiet-text">{current.name}</span> {current.changeCause}
        </li>
        {earlier.map((revision) => (
          <li key={revision.name}>
            <strong>
              {text.workload.revision} {revision.number}
            </strong>{' '}
            <span class="quiet-text">
              {revision.name}, {text.time.ago(ageOf(revision.createdAt, now))}
            </span>{' '}
            {revision.changeCause}{' '}
            <button
              type="button"
              aria-expanded={compared === revision.name}
              onClick={() => setCompared(compared === revision.name ? undefined : revision.name)}
            >
              {text.workload.compare}
            </button>{' '}
            <button type="button" onClick={() => void restore(revision)}>
              {text.workload.rollback}
            </button>
            {compared === revision.name && (
              <DiffView before={before} after={toYaml(revision.template)} label={text.workload.compare} none={text.edit.noChanges} />
            )}
          </li>
        ))}
      </ol>
      {earlier.length === 0 && <p class="empty">{text.workload.noRevisions}</p>}
    </div>
  );
}

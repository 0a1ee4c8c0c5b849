import type { KubeObject } from '../../../api/client.ts';
import { resourceOfKind } from '../../../api/resources.ts';
import { useApp } from '../../../app/context.ts';
import { useObjects } from '../../../app/hooks.ts';
import { objectLink } from '../../../app/links.ts';
import { text } from '../../../text/en.ts';
import { useOwnedObjects } from '../owned-objects.ts';
import type { Pod } from '../workload-kinds.ts';
import { blockersOf, remainingContent, type Blocker } from './finalizers.ts';

const words = text.deletion;

/** Why an object that is being deleted is still here. */
export function DeletionCard({ object }: { readonly object: KubeObject }) {
  const { deletionTimestamp = '' } = object.metadata;
  const blockers = blockersOf(object);
  const remaining = remainingContent(object);
  const node = object.kind === 'Pod' ? ((object as Pod).spec?.nodeName ?? '') : '';
  return (
    <section class="notice" aria-labelledby="deletion" role="status">
      <h2 id="deletion">{object.kind === 'Pod' ? words.podTitle(deletionTimestamp) : words.title(deletionTimestamp)}</h2>
      {node !== '' && <p>{words.pod(node)}</p>}
      {node === '' && blockers.length === 0 && <p>{words.none}</p>}
      {blockers.length > 0 && <Blockers object={object} blockers={blockers} />}
      {remaining.length > 0 && (
        <>
          <h3>{words.conditions}</h3>
          <ul class="plain">
            {remaining.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Blockers({ object, blockers }: { readonly object: KubeObject; readonly blockers: readonly Blocker[] }) {
  return (
    <>
      <p>{words.help}</p>
      <ul class="plain">
        {blockers.map(({ finalizer, remover, when }) => (
          <li key={finalizer}>
            <code>{finalizer}</code>: {words.removedBy(remover, when)}
            {finalizer === 'foregroundDeletion' && <Dependents owner={object} />}
            {finalizer === 'kubernetes.io/pvc-protection' && <Users claim={object} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function Dependents({ owner }: { readonly owner: KubeObject }) {
  const { tree } = useOwnedObjects(owner);
  return <Objects objects={tree.map(({ object }) => object)} />;
}

/** The pods that use a claim. */
function Users({ claim: { metadata } }: { readonly claim: KubeObject }) {
  const pods = useObjects<Pod>(`/api/v1/namespaces/${encodeURIComponent(metadata.namespace ?? '')}/pods`);
  const uses = ({ spec }: Pod) => spec?.volumes?.some(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === metadata.name) === true;
  return <Objects objects={pods.items.filter(uses).map((pod) => ({ apiVersion: 'v1', kind: 'Pod', ...pod }))} />;
}

const maxShown = 10;

function Objects({ objects }: { readonly objects: readonly KubeObject[] }) {
  const { resources } = useApp();
  return (
    <ul class="tree">
      {objects.slice(0, maxShown).map(({ apiVersion = '', kind = '', metadata }) => {
        const known = resourceOfKind(resources, apiVersion, kind);
        return <li key={metadata.uid}>{known ? <a href={objectLink(known, metadata)}>{`${kind} ${metadata.name}`}</a> : `${kind} ${metadata.name}`}</li>;
      })}
      {objects.length > maxShown && <li>…</li>}
    </ul>
  );
}

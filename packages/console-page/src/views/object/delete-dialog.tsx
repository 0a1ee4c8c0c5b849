import { useState } from 'preact/hooks';
import { errorText } from '../../api/client.ts';
import { objectPath, resourceOfKind } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { tableLink } from '../../app/links.ts';
import { Dialog } from '../../components/dialog.tsx';
import { text } from '../../text/en.ts';
import type { ActionDialogProps } from './actions.tsx';
import { useOwnedObjects, type OwnedNode } from './owned-objects.ts';

const policies = [
  ['Background', text.remove.background],
  ['Foreground', text.remove.foreground],
  ['Orphan', text.remove.orphan],
] as const;

const flatten = (nodes: readonly OwnedNode[]): readonly OwnedNode[] => nodes.flatMap((node) => [node, ...flatten(node.children)]);

/** Deletes an object after the user has seen what happens to the objects that it owns. */
export function DeleteDialog({ resource, object, onClose }: ActionDialogProps) {
  const { client, toast, resources } = useApp();
  const [policy, setPolicy] = useState<string>('Background');
  const [message, setMessage] = useState('');
  const owned = flatten(useOwnedObjects(object).tree);
  const { name, uid } = object.metadata;
  const remove = async (event: Event) => {
    event.preventDefault();
    try {
      await client.json(objectPath(resource, object), {
        method: 'DELETE',
        body: JSON.stringify({ kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: policy, preconditions: { uid } }),
      });
      toast('success', text.remove.done(name));
      onClose();
      location.hash = tableLink(resourceOfKind(resources, object.apiVersion ?? '', resource.kind) ?? resource);
    } catch (error) {
      setMessage(errorText(error));
    }
  };
  return (
    <Dialog title={text.remove.title(name)} onClose={onClose}>
      <form onSubmit={(event) => void remove(event)}>
        {message !== '' && (
          <p class="error-message" role="alert">
            {message}
          </p>
        )}
        <fieldset>
          <legend>{text.remove.propagation}</legend>
          {policies.map(([value, label]) => (
            <label key={value} class="check">
              <input type="radio" name="policy" value={value} checked={policy === value} onChange={() => setPolicy(value)} />
              <span>{label}</span>
            </label>
          ))}
        </fieldset>
        {owned.length > 0 && (
          <>
            <p>{text.remove.affected(owned.length)}</p>
            <ul class="pairs">
              {owned.slice(0, 50).map(({ object: { kind, metadata } }) => (
                <li key={metadata.uid}>
                  {kind} {metadata.name}
                </li>
              ))}
            </ul>
          </>
        )}
        <div class="actions">
          <button type="button" onClick={onClose}>
            {text.cancel}
          </button>
          <button type="submit" class="danger">
            {text.remove.confirm}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

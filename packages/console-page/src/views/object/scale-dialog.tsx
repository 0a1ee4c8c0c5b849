import { useState } from 'preact/hooks';
import { errorText } from '../../api/client.ts';
import { objectPath } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { Dialog } from '../../components/dialog.tsx';
import { text } from '../../text/en.ts';
import type { ActionDialogProps } from './actions.tsx';
import type { Workload } from './workload-kinds.ts';

/** Changes the number of replicas by the scale subresource. */
export function ScaleDialog({ resource, object, onClose }: ActionDialogProps) {
  const { client, toast } = useApp();
  const [replicas, setReplicas] = useState((object as Workload).spec?.replicas ?? 1);
  const [message, setMessage] = useState('');
  const scale = async (event: Event) => {
    event.preventDefault();
    try {
      await client.json(`${objectPath(resource, object)}/scale`, {
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        body: JSON.stringify({ spec: { replicas } }),
        query: { fieldManager: 'oarlock-console' },
      });
      toast('success', text.workload.scaled(replicas));
      onClose();
    } catch (error) {
      setMessage(errorText(error));
    }
  };
  return (
    <Dialog title={text.workload.scaleTitle(object.metadata.name)} onClose={onClose}>
      <form onSubmit={(event) => void scale(event)}>
        {message !== '' && (
          <p class="error-message" role="alert">
            {message}
          </p>
        )}
        <label>
          <span>{text.workload.replicas}</span>
          <input type="number" autofocus min={0} max={100_000} required value={replicas} onInput={({ currentTarget }) => setReplicas(currentTarget.valueAsNumber)} />
        </label>
        <div class="actions">
          <button type="button" onClick={onClose}>
            {text.cancel}
          </button>
          <button type="submit" class="primary">
            {text.workload.scale}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

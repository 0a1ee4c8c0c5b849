import { useState } from 'preact/hooks';
import { errorText } from '../../api/client.ts';
import { objectPath } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { objectLink } from '../../app/links.ts';
import { Dialog } from '../../components/dialog.tsx';
import { text } from '../../text/en.ts';
import type { ActionDialogProps } from './actions.tsx';
import type { Pod } from './workload-kinds.ts';

/** Adds an ephemeral container to a pod (KEP-277), and opens the terminal. */
export function DebugDialog({ resource, object, onClose }: ActionDialogProps) {
  const { client, toast } = useApp();
  const containers = (object as Pod).spec?.containers ?? [];
  const [image, setImage] = useState('busybox');
  const [target, setTarget] = useState(containers[0]?.name ?? '');
  const [message, setMessage] = useState('');
  const add = async (event: Event) => {
    event.preventDefault();
    const name = `debugger-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`;
    const container = { name, image, stdin: true, tty: true, ...(target !== '' && { targetContainerName: target }) };
    try {
      await client.json(`${objectPath(resource, object)}/ephemeralcontainers`, {
        method: 'PATCH',
        contentType: 'application/strategic-merge-patch+json',
        body: JSON.stringify({ spec: { ephemeralContainers: [container] } }),
      });
      toast('success', text.workload.debugAdded(name));
      onClose();
      location.hash = objectLink(resource, object.metadata, 'terminal');
    } catch (error) {
      setMessage(errorText(error));
    }
  };
  return (
    <Dialog title={text.workload.debugTitle} onClose={onClose}>
      <form onSubmit={(event) => void add(event)}>
        {message !== '' && (
          <p class="error-message" role="alert">
            {message}
          </p>
        )}
        <label>
          <span>{text.workload.debugImage}</span>
          <input type="text" autofocus required value={image} onInput={({ currentTarget }) => setImage(currentTarget.value)} />
        </label>
        <label>
          <span>{text.workload.debugTarget}</span>
          <select value={target} onChange={({ currentTarget }) => setTarget(currentTarget.value)}>
            <option value="">{text.object.none}</option>
            {containers.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <div class="actions">
          <button type="button" onClick={onClose}>
            {text.cancel}
          </button>
          <button type="submit" class="primary">
            {text.workload.add}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

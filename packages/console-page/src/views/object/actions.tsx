import { useState } from 'preact/hooks';
import { errorText } from '../../api/client.ts';
import { objectPath } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { text } from '../../text/en.ts';
import { DebugDialog } from './debug-dialog.tsx';
import { DeleteDialog } from './delete-dialog.tsx';
import type { TabProps } from './object-page.tsx';
import { PortForwardDialog } from './port-forward-dialog.tsx';
import { ScaleDialog } from './scale-dialog.tsx';

const restartable = new Set(['Deployment', 'StatefulSet', 'DaemonSet']);
const withPorts = new Set(['Pod', 'Deployment', 'StatefulSet', 'ReplicaSet', 'Service']);

/** What users can do with an object. The server decides whether the user may. */
export function Actions({ resource, object }: TabProps) {
  const { client, toast } = useApp();
  const [dialog, setDialog] = useState<'delete' | 'scale' | 'debug' | 'forward'>();
  const close = () => setDialog(undefined);
  const { kind } = resource;
  const restart = async () => {
    const annotations = { 'kubectl.kubernetes.io/restartedAt': new Date().toISOString() };
    try {
      await client.json(objectPath(resource, object), {
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        body: JSON.stringify({ spec: { template: { metadata: { annotations } } } }),
        query: { fieldManager: 'oarlock-console' },
      });
      toast('success', text.workload.restarted);
    } catch (error) {
      toast('error', errorText(error));
    }
  };
  return (
    <div class="actions">
      {resource.subresources.includes('scale') && (
        <button type="button" onClick={() => setDialog('scale')}>
          {text.workload.scale}
        </button>
      )}
      {restartable.has(kind) && (
        <button type="button" onClick={() => void restart()}>
          {text.workload.restart}
        </button>
      )}
      {withPorts.has(kind) && (
        <button type="button" onClick={() => setDialog('forward')}>
          {text.workload.portForward}
        </button>
      )}
      {kind === 'Pod' && (
        <button type="button" onClick={() => setDialog('debug')}>
          {text.workload.debug}
        </button>
      )}
      <button type="button" class="danger" onClick={() => setDialog('delete')}>
        {text.remove.button}
      </button>
      {dialog === 'delete' && <DeleteDialog resource={resource} object={object} onClose={close} />}
      {dialog === 'scale' && <ScaleDialog resource={resource} object={object} onClose={close} />}
      {dialog === 'debug' && <DebugDialog resource={resource} object={object} onClose={close} />}
      {dialog === 'forward' && <PortForwardDialog resource={resource} object={object} onClose={close} />}
    </div>
  );
}

export interface ActionDialogProps extends TabProps {
  readonly onClose: () => void;
}

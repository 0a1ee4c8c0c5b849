import { Dialog } from '../../components/dialog.tsx';
import { text } from '../../text/en.ts';
import type { ActionDialogProps } from './actions.tsx';
import type { Pod, Workload } from './workload-kinds.ts';

interface Service {
  readonly spec?: { readonly ports?: readonly { readonly port: number; readonly protocol?: string }[] };
}

/** Ports below this number need root on the user's machine. */
const firstFreePort = 1024;
const localPort = (port: number): number => (port < firstFreePort ? port + 8000 : port);

/** kubectl forwards TCP ports only. */
const isTcp = ({ protocol = 'TCP' }: { readonly protocol?: string }): boolean => protocol === 'TCP';

function portsOf(kind: string, object: ActionDialogProps['object']): readonly number[] {
  if (kind === 'Service') return ((object as unknown as Service).spec?.ports ?? []).filter(isTcp).map(({ port }) => port);
  const spec = kind === 'Pod' ? (object as Pod).spec : (object as Workload).spec?.template?.spec;
  return (spec?.containers ?? []).flatMap(({ ports = [] }) => ports.filter(isTcp).map(({ containerPort }) => containerPort));
}

/**
 * Shows the command that forwards a port, and a link to the forwarded port. A page cannot listen on the user's machine, and the console does not show
 * content of pods in its own origin, where their scripts would have the session of the user.
 */
export function PortForwardDialog({ resource, object, onClose }: ActionDialogProps) {
  const { name, namespace = '' } = object.metadata;
  const ports = portsOf(resource.kind, object);
  return (
    <Dialog title={text.workload.portForward} onClose={onClose}>
      <p>{text.workload.portForwardHelp}</p>
      {(ports.length === 0 ? [80] : ports).map((port) => (
        <div key={port}>
          <pre class="command">
            kubectl port-forward -n {namespace} {resource.kind.toLowerCase()}/{name} {localPort(port)}:{port}
          </pre>
          <p>
            {text.workload.portForwardOpen}{' '}
            <a href={`http://localhost:${localPort(port)}/`} target="_blank" rel="noreferrer">
              http://localhost:{localPort(port)}
            </a>
          </p>
        </div>
      ))}
    </Dialog>
  );
}

import { useEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../../../api/client.ts';
import { rejectionOf } from '../../../api/exec-protocol.ts';
import { openExec, type ExecSession } from '../../../api/exec.ts';
import { useApp } from '../../../app/context.ts';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { useOwnedObjects } from '../owned-objects.ts';
import type { Screen } from './screen.ts';

const defaultCommand = 'sh';

interface Connection {
  readonly session: ExecSession;
  readonly screen: Screen;
}

/** A terminal in a container. The terminal is loaded when the user connects. */
export function TerminalTab({ object }: Pick<TabProps, 'object'>) {
  const { client, toast } = useApp();
  const { pods } = useOwnedObjects(object);
  const running = pods.filter(({ status }) => status?.phase === 'Running');
  const [podName, setPodName] = useState('');
  const [containerName, setContainerName] = useState('');
  const [command, setCommand] = useState(defaultCommand);
  const [message, setMessage] = useState('');
  const [isConnected, setConnected] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const disconnectButton = useRef<HTMLButtonElement>(null);
  const connection = useRef<Connection | undefined>(undefined);
  const pod = running.find(({ metadata }) => metadata.name === podName) ?? running[0];
  const containers = [...(pod?.spec?.containers ?? []), ...(pod?.spec?.ephemeralContainers ?? [])].map(({ name }) => name);
  const container = containers.find((name) => name === containerName) ?? containers[0];

  const end = () => {
    connection.current?.session.close();
    connection.current?.screen.dispose();
    connection.current = undefined;
    setConnected(false);
  };
  useEffect(() => end, []);

  const toastError = (error: unknown) => toast('error', errorText(error));
  const connect = async () => {
    const element = box.current;
    if (element === null || pod === undefined || container === undefined) return;
    end();
    const { openScreen } = await import('./screen.ts');
    const screen = openScreen(element, {
      onInput: (input) => connection.current?.session.send(input),
      onResize: (columns, rows) => connection.current?.session.resize(columns, rows),
      onLeave: () => disconnectButton.current?.focus(),
    });
    const target = { namespace: pod.metadata.namespace ?? '', pod: pod.metadata.name, container, command: command.split(/\s+/).filter((word) => word !== '') };
    let isOpen = false;
    const session = openExec(target, {
      onOpen: () => {
        isOpen = true;
        session.resize(screen.columns, screen.rows);
        screen.focus();
      },
      onOutput: (bytes) => screen.write(bytes),
      onEnd: (reason) => {
        setMessage(reason === '' ? text.terminal.closed : text.terminal.failed(reason));
        setConnected(false);
        if (!isOpen) rejectionOf(client, target).then((rejection) => rejection !== undefined && setMessage(text.terminal.failed(rejection)), toastError);
      },
    });
    connection.current = { session, screen };
    setMessage('');
    setConnected(true);
  };
  // browsers send no headers with WebSockets, so that the session would have the permissions of the signed-in user
  if (client.impersonation !== undefined) return <p class="empty">{text.terminal.notImpersonated}</p>;
  return (
    <div class="tab-body">
      <form
        class="controls"
        onSubmit={(event) => {
          event.preventDefault();
          connect().catch(toastError);
        }}
      >
        <label>
          <span>{text.logs.pod}</span>
          <select value={pod?.metadata.name ?? ''} onChange={({ currentTarget }) => setPodName(currentTarget.value)}>
            {running.map(({ metadata: { name } }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>{text.logs.container}</span>
          <select value={container ?? ''} onChange={({ currentTarget }) => setContainerName(currentTarget.value)}>
            {containers.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>{text.terminal.command}</span>
          <input type="text" class="mono" value={command} onInput={({ currentTarget }) => setCommand(currentTarget.value)} />
        </label>
        {isConnected ? (
          <button ref={disconnectButton} type="button" onClick={end}>
            {text.terminal.disconnect}
          </button>
        ) : (
          <button type="submit" class="primary" disabled={pod === undefined}>
            {text.terminal.connect}
          </button>
        )}
      </form>
      <p class="quiet-text" role="status">
        {message === '' ? text.terminal.leave : message}
      </p>
      <div ref={box} class="terminal-box" role="group" aria-label={text.terminal.label} />
    </div>
  );
}

import { execPath, statusMessage, type ExecTarget } from './exec-protocol.ts';
import { pageKeyProtocol } from './page-key.ts';

/** The channels of the protocol v5.channel.k8s.io: the first byte of each message. */
const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const protocol = 'v5.channel.k8s.io';

export interface ExecHandlers {
  onOpen(): void;
  onOutput(bytes: Uint8Array): void;
  /** Called once, with the reason if the session failed. */
  onEnd(reason: string): void;
}
export interface ExecSession {
  send(text: string): void;
  resize(columns: number, rows: number): void;
  close(): void;
}

/** Runs a command with a terminal in a container, over a WebSocket that the session cookie and the key of the page authenticate. */
export function openExec(target: ExecTarget, { onOpen, onOutput, onEnd }: ExecHandlers): ExecSession {
  const socket = new WebSocket(`wss://${location.host}${execPath(target)}`, [protocol, pageKeyProtocol()]);
  socket.binaryType = 'arraybuffer';
  let reason = '';
  const send = (channel: number, text: string) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const bytes = new TextEncoder().encode(text);
    const message = new Uint8Array(bytes.length + 1);
    message[0] = channel;
    message.set(bytes, 1);
    socket.send(message);
  };
  socket.addEventListener('open', onOpen);
  socket.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer>) => {
    const bytes = new Uint8Array(data);
    if (bytes[0] === channels.stdout || bytes[0] === channels.stderr) onOutput(bytes.subarray(1));
    else if (bytes[0] === channels.error) reason = statusMessage(bytes.subarray(1));
  });
  socket.addEventListener('close', ({ code, reason: closeReason }) =>
    onEnd(reason === '' && code !== 1000 ? closeReason || `the connection was closed with code ${code}` : reason),
  );
  return {
    send: (text) => send(channels.stdin, text),
    resize: (columns, rows) => send(channels.resize, JSON.stringify({ Width: columns, Height: rows })),
    close: () => socket.close(1000),
  };
}

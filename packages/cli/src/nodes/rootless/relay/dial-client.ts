import { connect, type Socket } from 'node:net';
import { accepted, passBoth } from './dial-server.ts';
import { formatTarget, type Target } from './target.ts';

/** Connects a client to a target through the other side of the relay. The client gets a reset if the target does not accept the connection. */
export function relayConnection(client: Socket, { path, target }: { readonly path: string; readonly target: Target }): void {
  const relay = dial(path, target);
  let isConnected = false;
  client.once('error', () => relay.destroy());
  client.once('close', () => {
    if (!isConnected) relay.destroy();
  });
  relay.once('close', () => {
    if (!isConnected) client.resetAndDestroy();
  });
  onAccepted(relay, () => {
    isConnected = true;
    passBoth(client, relay);
  });
}

/** Opens a connection for one target; it carries data once `onAccepted` has called back. */
export function dial(path: string, target: Target): Socket {
  const relay = connect({ path, allowHalfOpen: true });
  relay.on('error', () => relay.destroy()); // `close` follows, which ends the client
  relay.once('end', () => {
    if (relay.bytesRead === 0) relay.destroy(); // the target does not accept it
  });
  relay.write(formatTarget(target));
  return relay;
}

/** Calls back when the target accepted the connection; what follows the answer is still to be read then. */
export function onAccepted(relay: Socket, callback: () => void): void {
  relay.once('data', (first: Buffer) => {
    relay.pause();
    if (first[0] !== accepted) {
      relay.destroy();
      return;
    }
    if (first.length > 1) relay.unshift(first.subarray(1));
    callback();
  });
}

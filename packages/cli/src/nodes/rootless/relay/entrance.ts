import { createServer, type Server } from 'node:net';
import { relayConnection } from './dial-client.ts';
import type { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import type { Target } from './target.ts';

export interface EntranceOptions {
  /** Path of the other side of the relay. */
  readonly path: string;
  readonly shares: SourceShares;
  /** Returns the source that a client with this address counts as. */
  sourceOf(address: string): string;
  /** Returns where a client's connection goes; undefined if it is reset. */
  targetOf(client: { readonly address: string; readonly port: number }): Promise<Target | undefined>;
}

/** A pod that was killed does not end its connections. The kernel probes silent ones, so that their places return. */
const keepAliveDelayMs = 60_000;

/** Returns a server that relays each connection to its target. A source that has its share gets a reset. */
export function createEntrance({ path, shares, sourceOf, targetOf }: EntranceOptions): Server {
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: keepAliveDelayMs };
  return createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true, ...keepAlive }, (client) => {
    const { remoteAddress: address = '', remotePort: port = 0 } = client;
    const source = sourceOf(address);
    client.on('error', () => client.destroy());
    if (!shares.take(source)) {
      client.resetAndDestroy();
      return;
    }
    client.once('close', () => shares.release(source));
    void targetOf({ address, port }).then((target) => {
      if (target === undefined) client.resetAndDestroy();
      else relayConnection(client, { path, target });
    });
  });
}

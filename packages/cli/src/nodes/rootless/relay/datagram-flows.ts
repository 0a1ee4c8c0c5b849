import type { RemoteInfo, Socket as DatagramSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { datagramReader, frameDatagram } from './datagram-frames.ts';
import { dial, onAccepted } from './dial-client.ts';
import type { Target } from './target.ts';

export interface DatagramFlowsOptions {
  readonly clock: Clock;
  /** Path of the other side of the relay. */
  readonly path: string;
  /** Returns where the first datagram of a client goes; undefined if it is dropped. */
  targetOf(client: { readonly address: string; readonly port: number }): Promise<Target | undefined>;
}
interface Flow {
  readonly relay: Socket;
  timer: Timer;
}

const maxFlows = 4096;
/** As for unreplied flows of the kernel, and of proxy-userspace. */
const idleMs = 60_000;

/** Relays the datagrams of a socket: those of one client are a flow with its own target and connection, which ends after a minute without datagrams. */
export class DatagramFlows {
  readonly #socket: DatagramSocket;
  readonly #options: DatagramFlowsOptions;
  readonly #flows = new Map<string, Flow | 'opening'>();
  #closed = false;

  constructor(socket: DatagramSocket, options: DatagramFlowsOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on('message', (datagram, client) => void this.#receive(datagram, client));
    socket.on('error', () => {}); // of one datagram that could not be sent
  }

  close(): void {
    this.#closed = true;
    for (const flow of this.#flows.values()) if (flow !== 'opening') flow.relay.destroy();
    this.#socket.close();
  }

  async #receive(datagram: Buffer, client: RemoteInfo): Promise<void> {
    const key = `${client.address}:${client.port}`;
    const known = this.#flows.get(key);
    if (known === 'opening' || (known === undefined && this.#flows.size >= maxFlows)) return; // lost, as datagrams may be
    const flow = known ?? (await this.#open(key, client));
    if (flow === undefined) return;
    flow.timer.cancel();
    flow.timer = this.#expire(flow.relay);
    if (!flow.relay.writableNeedDrain) flow.relay.write(frameDatagram(datagram));
  }

  async #open(key: string, client: RemoteInfo): Promise<Flow | undefined> {
    this.#flows.set(key, 'opening');
    const target = await this.#options.targetOf(client);
    if (target === undefined || this.#closed) {
      this.#flows.delete(key);
      return undefined;
    }
    const relay = dial(this.#options.path, target);
    const flow = { relay, timer: this.#expire(relay) };
    this.#flows.set(key, flow);
    relay.once('end', () => relay.destroy());
    relay.once('close', () => {
      flow.timer.cancel();
      this.#flows.delete(key);
    });
    onAccepted(relay, () => {
      const read = datagramReader((datagram) => {
        if (!this.#closed) this.#socket.send(datagram, client.port, client.address, () => {});
      });
      relay.on('data', read);
      relay.resume();
    });
    return flow;
  }

  #expire(relay: Socket): Timer {
    return this.#options.clock.after(idleMs, () => relay.destroy());
  }
}

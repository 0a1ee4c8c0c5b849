import type { RemoteInfo, Socket as DatagramSocket } from 'node:dgram';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { onDatagram } from '@oarlock/primitives/net/datagrams';
import { datagramReader, frameDatagram } from './datagram-frames.ts';
import { dial, onAccepted } from './dial-client.ts';
import type { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import type { Target } from './target.ts';

export interface DatagramFlowsOptions {
  readonly clock: Clock;
  /** Path of the other side of the relay. */
  readonly path: string;
  readonly shares: SourceShares;
  /** Returns the source that a client with this address counts as. */
  sourceOf(address: string): string;
  /** Returns where the first datagram of a client goes; undefined if it is dropped. */
  targetOf(client: { readonly address: string; readonly port: number }): Promise<Target | undefined>;
}
interface Flow {
  readonly relay: Socket;
  timer: Timer;
}

/** As for unreplied flows of the kernel, and of proxy-userspace. */
const idleMs = 60_000;

/**
 * Relays the datagrams of a socket: those of one client are a flow with its own target and connection, which ends after a minute without datagrams. A source
 * that has its share of flows loses the one whose last datagram is the oldest for a new one.
 */
export class DatagramFlows {
  readonly #socket: DatagramSocket;
  readonly #options: DatagramFlowsOptions;
  readonly #flows = new Map<string, Flow | 'opening'>();
  /** Per source the keys of its open flows, in the order of their last datagrams. */
  readonly #recent = new Map<string, Set<string>>();
  #closed = false;

  constructor(socket: DatagramSocket, options: DatagramFlowsOptions) {
    this.#socket = socket;
    this.#options = options;
    onDatagram(socket, (datagram, client) => void this.#receive(datagram, client));
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
    if (known === 'opening') return; // lost, as datagrams may be
    const flow = known ?? (await this.#open(key, client));
    if (flow === undefined) return;
    flow.timer.cancel();
    flow.timer = this.#expire(flow.relay);
    this.#touch(key, client.address);
    if (!flow.relay.writableNeedDrain) flow.relay.write(frameDatagram(datagram));
  }

  async #open(key: string, client: RemoteInfo): Promise<Flow | undefined> {
    const source = this.#options.sourceOf(client.address);
    if (!this.#take(source)) return undefined;
    this.#flows.set(key, 'opening');
    const target = await this.#options.targetOf(client);
    if (target === undefined || this.#closed) {
      this.#flows.delete(key);
      this.#options.shares.release(source);
      return undefined;
    }
    const relay = dial(this.#options.path, target);
    const flow = { relay, timer: this.#expire(relay) };
    this.#flows.set(key, flow);
    relay.once('end', () => relay.destroy());
    relay.once('close', () => this.#end(key, { flow, source }));
    onAccepted(relay, () => {
      const read = datagramReader((datagram) => {
        if (!this.#closed) this.#socket.send(datagram, client.port, client.address, () => {});
      });
      relay.on('data', read);
      relay.resume();
    });
    return flow;
  }

  /** Takes a place for a flow, if necessary that of the source's oldest one. */
  #take(source: string): boolean {
    const { shares } = this.#options;
    if (shares.take(source)) return true;
    const [oldest] = this.#recent.get(source) ?? [];
    const flow = oldest === undefined ? undefined : this.#flows.get(oldest);
    if (oldest === undefined || flow === undefined || flow === 'opening') return false;
    flow.relay.destroy();
    this.#end(oldest, { flow, source });
    return shares.take(source);
  }

  #touch(key: string, address: string): void {
    const source = this.#options.sourceOf(address);
    const recent = this.#recent.get(source) ?? new Set();
    recent.delete(key);
    this.#recent.set(source, recent.add(key));
  }

  /** Forgets a flow and returns its place, unless that has been done. */
  #end(key: string, { flow, source }: { readonly flow: Flow; readonly source: string }): void {
    if (this.#flows.get(key) !== flow) return;
    flow.timer.cancel();
    this.#flows.delete(key);
    this.#options.shares.release(source);
    const recent = this.#recent.get(source);
    if (recent?.delete(key) === true && recent.size === 0) this.#recent.delete(source);
  }

  #expire(relay: Socket): Timer {
    return this.#options.clock.after(idleMs, () => relay.destroy());
  }
}

import { createSocket } from 'node:dgram';
import { readFile } from 'node:fs/promises';
import { isIPv4, type Server } from 'node:net';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { gatewayAddress } from './node-address.ts';
import { DatagramFlows } from './relay/datagram-flows.ts';
import { DialServer } from './relay/dial-server.ts';
import { createEntrance, type EntranceOptions } from './relay/entrance.ts';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import type { Target } from './relay/target.ts';

/** A port of the host that leads to a target in the network of the node. */
export interface PublishedPort {
  readonly address: string;
  readonly port: number;
  readonly target: Target;
}
interface Listener {
  close(): void;
}

export interface HostRelayOptions {
  readonly clock: Clock;
  /** The maximum number of connections and flows in each direction. */
  readonly places: number;
  /** Path of the relay's other side, which connects in the network of the node. */
  readonly uplink: string;
  /** Called with a port that cannot be published. */
  onWarning(warning: string): void;
}

const dnsPort = 53;
/** When ports that another program has are tried again: the kernel has no event for a port that becomes free. Milliseconds. */
const retryMs = 5_000;
const keyOf = ({ address, port, target }: PublishedPort) => `${target.protocol} ${address}:${port} ${target.address}:${target.port}`;

/** The host's side of the relay: connects to what the node and its pods connect to, and listens on published ports for clients of the host. */
export class HostRelay {
  readonly #options: HostRelayOptions;
  readonly #outgoing: DialServer;
  /** Of the published ports. The node's side divides the outgoing connections, since it knows which pod opens them. */
  readonly #shares: SourceShares;
  readonly #listeners = new Map<string, Listener>();
  #published: Promise<void> = Promise.resolve();
  #nameServer = '127.0.0.1';

  constructor(options: HostRelayOptions) {
    this.#options = options;
    this.#shares = new SourceShares(options.places);
    this.#outgoing = new DialServer({ clock: options.clock, places: options.places, resolve: (target) => this.#resolve(target) });
  }

  /** Accepts connections of the node. */
  async listen(path: string): Promise<void> {
    this.#nameServer = firstNameServer(await readFile('/etc/resolv.conf', 'utf8').catch(() => '')) ?? this.#nameServer;
    await this.#outgoing.listen(path);
  }

  /** Makes a port of the host lead to a target. Returns the port, a free one for 0. @throws the system error if the host cannot listen on it */
  async publish(published: PublishedPort): Promise<number> {
    const { listener, port } = await (published.target.protocol === 'tcp' ? this.#listenTcp(published) : this.#listenUdp(published));
    this.#listeners.set(keyOf({ ...published, port }), listener);
    return port;
  }

  /** Publishes exactly these ports, besides those of `publish`. Ports that stay keep their connections. */
  publishServices(ports: readonly PublishedPort[]): Promise<void> {
    this.#published = this.#published.then(() => this.#publishServices(ports));
    return this.#published;
  }

  readonly #services = new Set<string>();
  /** Ports that could not be published, which are reported once. */
  readonly #unpublished = new Set<string>();
  #retry: Timer | undefined;

  async #publishServices(ports: readonly PublishedPort[]): Promise<void> {
    this.#retry?.cancel();
    const wanted = new Map(ports.map((port) => [keyOf(port), port]));
    for (const key of this.#services) {
      if (wanted.has(key)) continue;
      this.#listeners.get(key)?.close();
      this.#listeners.delete(key);
      this.#services.delete(key);
    }
    for (const key of this.#unpublished) if (!wanted.has(key)) this.#unpublished.delete(key);
    for (const [key, port] of wanted) if (!this.#services.has(key)) await this.#publishService(key, port);
    // another cluster of the host may have the ports, and end
    if (this.#unpublished.size > 0) this.#retry = this.#options.clock.after(retryMs, () => void this.publishServices(ports));
  }

  async #publishService(key: string, port: PublishedPort): Promise<void> {
    try {
      await this.publish(port);
      this.#services.add(key);
      this.#unpublished.delete(key);
    } catch (error) {
      if (this.#unpublished.has(key)) return;
      this.#unpublished.add(key);
      const { code, message } = error as NodeJS.ErrnoException;
      const advice = code === 'EACCES' ? ': ports below the sysctl net.ipv4.ip_unprivileged_port_start need root' : '';
      this.#options.onWarning(`cannot publish ${port.target.protocol} port ${port.port} at ${port.address}: ${message}${advice}`);
    }
  }

  async close(): Promise<void> {
    await this.#published;
    this.#retry?.cancel();
    for (const listener of this.#listeners.values()) listener.close();
    this.#listeners.clear();
    await this.#outgoing.close();
  }

  /** The gateway stands for the host itself: for its name server, and for its loopback address. */
  #resolve(target: Target): Target | undefined {
    // the packet rules of the router drop these; the kernel takes 0.0.0.0 for the loopback address
    if (/^(?:0|127|22[4-9]|2[345]\d)\./.test(target.address)) return undefined;
    if (target.address !== gatewayAddress) return target;
    return { ...target, address: target.port === dnsPort ? this.#nameServer : '127.0.0.1' };
  }

  /** Clients of one port have shares of their own, so that a Service that is flooded leaves places for the API server. */
  #entrance(published: PublishedPort): EntranceOptions {
    const port = keyOf(published);
    const { target } = published;
    return {
      path: this.#options.uplink,
      shares: this.#shares,
      sourceOf: (address) => `${port} ${address}`,
      targetOf: async () => target,
    };
  }

  async #listenTcp(published: PublishedPort): Promise<{ readonly listener: Listener; readonly port: number }> {
    const server = createEntrance(this.#entrance(published));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: published.address, port: published.port, exclusive: true }, resolve);
    });
    return { listener: { close: () => closeServer(server) }, port: (server.address() as { readonly port: number }).port };
  }

  async #listenUdp(published: PublishedPort): Promise<{ readonly listener: Listener; readonly port: number }> {
    const socket = createSocket('udp4');
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.bind({ address: published.address, port: published.port, exclusive: true }, resolve);
    });
    const flows = new DatagramFlows(socket, { clock: this.#options.clock, ...this.#entrance(published) });
    return { listener: flows, port: socket.address().port };
  }
}

const closeServer = (server: Server) => void server.close();

/** Returns the first IPv4 name server of a resolv.conf. */
export function firstNameServer(text: string): string | undefined {
  const servers = Array.from(text.matchAll(/^\s*nameserver\s+(\S+)/gm), ([, address = '']) => address);
  return servers.find((address) => isIPv4(address));
}

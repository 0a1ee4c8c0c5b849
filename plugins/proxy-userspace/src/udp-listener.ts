import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { onDatagram } from '@oarlock/primitives/net/datagrams';
import type { ProxyEndpoint } from '@oarlock/spi/proxy';
import type { Balancer, Frontend } from './balancer.ts';

const idleMs = 60_000; // as the kernel's timeout of idle UDP flows
const maxFlows = 16_384;
const maxWaiting = 64; // maximum datagrams queued while a new flow's socket opens

interface Flow {
  readonly socket: Socket;
  readonly endpoint: ProxyEndpoint;
  timer: Timer;
  connected: boolean;
  readonly waiting: Buffer[];
}

/** The endpoints that flows are balanced over. */
export interface UdpListenerOptions {
  readonly balancer: Balancer;
  readonly frontend: Frontend;
  readonly clock: Clock;
}

/** The port to listen on, and the endpoints that flows are balanced over. */
export interface UdpListenerTarget {
  readonly port: number;
  readonly balancer: Balancer;
  readonly frontend: Frontend;
  readonly clock: Clock;
}

/**
 * Forwards the UDP datagrams of one address and port. The datagrams of a client go to one endpoint while the client's flow exists. Flows to removed
 * endpoints are closed.
 */
export class UdpListener {
  readonly #socket: Socket;
  readonly #flows = new Map<string, Flow>();
  readonly #balancer: Balancer;
  readonly #clock: Clock;
  readonly #frontend: Frontend;

  private constructor(socket: Socket, { balancer, frontend, clock }: UdpListenerOptions) {
    this.#socket = socket;
    this.#balancer = balancer;
    this.#frontend = frontend;
    this.#clock = clock;
    onDatagram(socket, (data, from) => this.#pass(data, from));
  }

  /** Opens the socket. @throws the error of bind(2) if the address is not local, in use, or requires a privilege */
  static async open(ip: string, { port, balancer, frontend, clock }: UdpListenerTarget): Promise<UdpListener> {
    const socket = createSocket({ type: isIPv6(ip) ? 'udp6' : 'udp4' });
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.bind({ address: ip, port, exclusive: true }, () => {
        socket.off('error', reject);
        resolve();
      });
    });
    // an ICMP error for one datagram does not affect others
    socket.on('error', () => {});
    socket.unref();
    return new UdpListener(socket, { balancer, frontend, clock });
  }

  /** Closes the flows to endpoints that no longer exist. */
  prune(): void {
    for (const [key, flow] of this.#flows) if (!this.#balancer.has(flow.endpoint)) this.#end(key, flow);
  }

  async close(): Promise<void> {
    for (const [key, flow] of this.#flows) this.#end(key, flow);
    await new Promise<void>((resolve) => {
      this.#socket.close(() => resolve());
    });
  }

  #pass(data: Buffer, from: RemoteInfo): void {
    const key = `${from.address} ${from.port}`;
    const flow = this.#flows.get(key) ?? this.#open(key, from);
    if (flow === undefined) return;
    flow.timer.cancel();
    flow.timer = this.#clock.after(idleMs, () => this.#end(key, flow));
    if (flow.connected)
      flow.socket.send(data, () => {}); // a failed send is a lost datagram
    else if (flow.waiting.length < maxWaiting) flow.waiting.push(data);
  }

  #open(key: string, from: RemoteInfo): Flow | undefined {
    const endpoint = this.#balancer.pick(from.address, this.#frontend);
    if (endpoint === undefined || this.#flows.size >= maxFlows) return undefined;
    const socket = createSocket({ type: isIPv6(endpoint.ip) ? 'udp6' : 'udp4' });
    const flow: Flow = { socket, endpoint, timer: this.#clock.after(idleMs, () => this.#end(key, flow)), connected: false, waiting: [] };
    socket.on('error', () => {
      // an ICMP error for one datagram does not end the flow
      if (!flow.connected) this.#end(key, flow);
    });
    socket.on('message', (answer) => {
      this.#socket.send(answer, from.port, from.address);
    });
    socket.once('connect', () => {
      flow.connected = true;
      for (const data of flow.waiting.splice(0)) socket.send(data, () => {});
    });
    // a connected socket receives datagrams of the endpoint only: others would appear to come from the Service
    socket.connect(endpoint.port, endpoint.ip);
    socket.unref();
    this.#flows.set(key, flow);
    return flow;
  }

  #end(key: string, flow: Flow): void {
    if (this.#flows.get(key) !== flow) return;
    this.#flows.delete(key);
    flow.timer.cancel();
    flow.socket.close();
  }
}

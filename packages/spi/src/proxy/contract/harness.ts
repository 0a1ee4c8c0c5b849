import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { ProxyEndpoint, ServicePort, ServiceProxy } from '../proxy.ts';

/** Access to the service proxy under test, provided by the package of the proxy. */
export interface ProxyFixture {
  /** The service proxy under test, started; no state has been applied. */
  readonly proxy: ServiceProxy;
  /** At least four addresses on which the suite's servers can listen in place of pods. */
  readonly podAddresses: readonly string[];
  /** At least four unused addresses for Services. */
  readonly serviceAddresses: readonly string[];
  /** An address to use in `externalIPs`. */
  readonly externalAddress?: string;
  /** The address of node ports, and two free node ports. */
  readonly nodePorts?: { readonly address: string; readonly ports: readonly [number, number] };
  /** Two addresses from which the suite's clients can connect, for affinity. */
  readonly clientAddresses?: readonly [string, string];
  /** Advances time by `seconds`, to end session affinity. If absent, the end of affinity is not tested. */
  readonly advanceTime?: (seconds: number) => Promise<void>;
  /** Abandons the proxy as if the proxy's process had ended, and returns a new proxy on the same machine. */
  readonly restart?: () => Promise<ServiceProxy>;
  /** Counts the resources that `apply` creates on the machine: rules, sockets. Equal counts before and after mean that nothing leaked. */
  readonly countResources?: () => Promise<Readonly<Record<string, number>>>;
  /** Unsupported capabilities, each with the reason shown for the skipped tests. */
  readonly unsupported?: Partial<Readonly<Record<ProxyCapability, string>>>;
  dispose(): Promise<void>;
}
export type ProxyCapability = 'udp' | 'affinity' | 'nodePort' | 'external' | 'sourceRanges';

const timeoutMs = 5_000; // until a connection without a response counts as dropped
const dropTimeoutMs = 700; // after which no response is expected any more

const udpOf = (address: string) => (address.includes(':') ? 'udp6' : 'udp4');

/** Result of a connection attempt: the server's address, an error code, or no response. */
export type DialResult = { readonly by: string } | { readonly rejectedWith: string } | { readonly dropped: true };

/** A service proxy under test, with clients and servers. A server sends its own address and then echoes. */
export class ProxyHarness {
  readonly fixture: ProxyFixture;
  proxy: ServiceProxy;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket | UdpSocket>();
  readonly #udp: UdpSocket[] = [];
  #ports = 0;

  constructor(fixture: ProxyFixture) {
    this.fixture = fixture;
    this.proxy = fixture.proxy;
  }

  pod(index: number): string {
    return this.fixture.podAddresses[index] ?? '';
  }
  service(index: number): string {
    return this.fixture.serviceAddresses[index] ?? '';
  }
  /** Returns a port that no other test of this run uses. */
  freshPort(): number {
    return 20_000 + ((process.pid * 131 + this.#ports++ * 7 + Math.floor(performance.now())) % 9_000);
  }

  /** Starts a server on each address, which sends its address and then echoes. Returns the servers as endpoints. */
  async serve(addresses: readonly string[], port = this.freshPort()): Promise<readonly ProxyEndpoint[]> {
    for (const address of addresses) {
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        this.#hold(socket);
        socket.on('error', () => socket.destroy());
        socket.write(`${address}\n`);
        socket.pipe(socket);
      });
      server.listen({ host: address, port, backlog: 1024 });
      await once(server, 'listening');
      this.#servers.push(server);
    }
    return addresses.map((ip) => endpoint(ip, port));
  }

  async serveUdp(addresses: readonly string[], port = this.freshPort()): Promise<readonly ProxyEndpoint[]> {
    for (const address of addresses) {
      const socket = createSocket(udpOf(address));
      socket.on('message', (data, from) => socket.send(`${address} ${data.toString()}`, from.port, from.address));
      socket.bind({ address, port });
      await once(socket, 'listening');
      this.#udp.push(socket);
    }
    return addresses.map((ip) => endpoint(ip, port));
  }

  /** Connects and reads the address that the server sends. */
  async dial(ip: string, port: number, from?: string): Promise<DialResult> {
    const { socket, answer } = this.open(ip, port, from);
    try {
      return await answer;
    } finally {
      socket.destroy();
    }
  }

  /** Opens a connection and keeps it open. */
  open(ip: string, port: number, from?: string): { readonly socket: Socket; readonly answer: Promise<DialResult> } {
    const socket = connect({ host: ip, port, ...(from !== undefined && { localAddress: from }) });
    this.#hold(socket);
    const answer = new Promise<DialResult>((resolve) => {
      const timer = setTimeout(() => resolve({ dropped: true }), timeoutMs);
      const end = (what: DialResult) => {
        clearTimeout(timer);
        resolve(what);
      };
      let text = '';
      socket.on('data', (data) => {
        text += data.toString();
        if (text.includes('\n')) end({ by: text.slice(0, text.indexOf('\n')) });
      });
      socket.on('error', (error: NodeJS.ErrnoException) => end({ rejectedWith: error.code ?? error.message }));
      socket.on('close', () => end({ rejectedWith: 'closed' }));
    });
    return { socket, answer };
  }

  /** Returns true if no server responds: the connection fails, or there is no response within `dropTimeoutMs`. */
  async isUnserved(ip: string, port: number): Promise<boolean> {
    const { socket, answer } = this.open(ip, port);
    const nothing = new Promise<DialResult>((resolve) => {
      setTimeout(() => resolve({ dropped: true }), dropTimeoutMs);
    });
    const outcome = await Promise.race([answer, nothing]);
    socket.destroy();
    return !('by' in outcome);
  }

  /** Counts how often each endpoint responded. @throws Error if a connection failed or was dropped */
  async countResponses(ip: string, port: number, times: number, from?: string): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    for (let done = 0; done < times; done++) {
      const outcome = await this.dial(ip, port, from);
      if (!('by' in outcome)) throw new Error(`connection ${done + 1} of ${times} to ${ip}:${port} was ${JSON.stringify(outcome)}`);
      counts.set(outcome.by, (counts.get(outcome.by) ?? 0) + 1);
    }
    return counts;
  }

  /** Opens a UDP client on its own port. `ask` returns the address of the endpoint that responded, or undefined. */
  async udpClient(from?: string): Promise<{ ask(ip: string, port: number): Promise<string | undefined>; close(): void }> {
    const socket = createSocket(udpOf(this.service(0)));
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.bind({ ...(from !== undefined && { address: from }) });
    await once(socket, 'listening');
    let sent = 0;
    return {
      ask: (ip, port) =>
        new Promise((resolve) => {
          const text = `question-${sent++}`;
          const timer = setTimeout(() => {
            socket.off('message', take);
            resolve(undefined);
          }, dropTimeoutMs);
          const take = (data: Buffer) => {
            const [by, echoed] = data.toString().split(' ');
            if (echoed !== text) return;
            clearTimeout(timer);
            socket.off('message', take);
            resolve(by);
          };
          socket.on('message', take);
          socket.send(text, port, ip, () => {});
        }),
      close: () => {
        this.#sockets.delete(socket);
        socket.close();
      },
    };
  }

  async restart(): Promise<void> {
    if (this.fixture.restart === undefined) throw new Error('the fixture cannot restart');
    this.proxy = await this.fixture.restart();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) {
      if ('destroy' in socket) socket.destroy();
      else socket.close();
    }
    for (const socket of this.#udp) socket.close();
    await Promise.all(
      this.#servers.map(
        (server) =>
          new Promise<void>((resolve) => {
            server.close(() => resolve());
          }),
      ),
    );
    await this.fixture.dispose();
  }

  #hold(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }
}

export const endpoint = (ip: string, port: number, more: Partial<ProxyEndpoint> = {}): ProxyEndpoint => ({
  ip,
  port,
  local: true,
  ready: true,
  serving: true,
  terminating: false,
  ...more,
});

/** Returns a Service port with defaults. */
export function servicePort(key: string, more: Partial<ServicePort> & Pick<ServicePort, 'port' | 'clusterIPs' | 'endpoints'>): ServicePort {
  return {
    key,
    protocol: 'TCP',
    externalIPs: [],
    loadBalancerIPs: [],
    loadBalancerSourceRanges: [],
    internalLocal: false,
    externalLocal: false,
    ...more,
  };
}

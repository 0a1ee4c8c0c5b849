import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { ProxyEndpoint, ServicePort, ServiceProxy } from './proxy.ts';

export interface ProxyFixture {
  /** Started; nothing has been applied. */
  readonly proxy: ServiceProxy;
  /** At least four addresses that servers of this test can listen on: the pods. */
  readonly podAddresses: readonly string[];
  /** At least four addresses for Services, which nobody else has. */
  readonly serviceAddresses: readonly string[];
  /** An address for `externalIPs`. */
  readonly externalAddress?: string;
  /** Where node ports answer, and two of them that are free. */
  readonly nodePorts?: { readonly address: string; readonly ports: readonly [number, number] };
  /** Two addresses that clients of this test can come from, for affinity. */
  readonly clientAddresses?: readonly [string, string];
  /** Lets `seconds` pass, for affinity that ends. Left out: the suite does not wait for it. */
  readonly pass?: (seconds: number) => Promise<void>;
  /** Drops the proxy as the end of its process would, and opens another over the same machine. */
  readonly restart?: () => Promise<ServiceProxy>;
  /** Counts what `apply` makes on the machine: rules, sockets. Equal counts before and after mean that nothing leaked. */
  readonly census?: () => Promise<Readonly<Record<string, number>>>;
  /** What is not claimed, and the reason shown beside the skipped test. */
  readonly lacks?: Partial<Readonly<Record<ProxyCapability, string>>>;
  dispose(): Promise<void>;
}
export type ProxyCapability = 'udp' | 'affinity' | 'nodePort' | 'external' | 'sourceRanges';

const patience = 5_000; // milliseconds until a connection that gets no answer counts as dropped
const silence = 700; // milliseconds without an answer after which nothing is taken to come any more

const udpOf = (address: string) => (address.includes(':') ? 'udp6' : 'udp4');

/** What came of dialling: who answered, or how it was turned away. */
export type Dialled = { readonly by: string } | { readonly refused: string } | { readonly dropped: true };

/** Servers that say their own name to whoever connects and then echo. */
export class ProxyBench {
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
  /** A port that no other test of this run uses. */
  freshPort(): number {
    return 20_000 + ((process.pid * 131 + this.#ports++ * 7 + Math.floor(performance.now())) % 9_000);
  }

  /** Listens at each pod address on one port; answers with the address. Every server echoes what it is sent after its name. */
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

  /** Opens a connection and reads the name of whoever answers. */
  async dial(ip: string, port: number, from?: string): Promise<Dialled> {
    const { socket, answer } = this.open(ip, port, from);
    try {
      return await answer;
    } finally {
      socket.destroy();
    }
  }

  /** A connection that stays open. */
  open(ip: string, port: number, from?: string): { readonly socket: Socket; readonly answer: Promise<Dialled> } {
    const socket = connect({ host: ip, port, ...(from !== undefined && { localAddress: from }) });
    this.#hold(socket);
    const answer = new Promise<Dialled>((resolve) => {
      const timer = setTimeout(() => resolve({ dropped: true }), patience);
      const end = (what: Dialled) => {
        clearTimeout(timer);
        resolve(what);
      };
      let text = '';
      socket.on('data', (data) => {
        text += data.toString();
        if (text.includes('\n')) end({ by: text.slice(0, text.indexOf('\n')) });
      });
      socket.on('error', (error: NodeJS.ErrnoException) => end({ refused: error.code ?? error.message }));
      socket.on('close', () => end({ refused: 'closed' }));
    });
    return { socket, answer };
  }

  /** True when nobody serves there: turned away, or no answer at all for a moment. */
  async unserved(ip: string, port: number): Promise<boolean> {
    const { socket, answer } = this.open(ip, port);
    const nothing = new Promise<Dialled>((resolve) => {
      setTimeout(() => resolve({ dropped: true }), silence);
    });
    const outcome = await Promise.race([answer, nothing]);
    socket.destroy();
    return !('by' in outcome);
  }

  /** How often each endpoint answered. Throws when a connection was refused or dropped. */
  async spread(ip: string, port: number, times: number, from?: string): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    for (let done = 0; done < times; done++) {
      const outcome = await this.dial(ip, port, from);
      if (!('by' in outcome)) throw new Error(`connection ${done + 1} of ${times} to ${ip}:${port} was ${JSON.stringify(outcome)}`);
      counts.set(outcome.by, (counts.get(outcome.by) ?? 0) + 1);
    }
    return counts;
  }

  /** A UDP client of its own port: sends and reads the name of whoever answers, or undefined when nobody does. */
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
          }, silence);
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

/** A Service port with what a test says of it. */
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

import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { ServerList } from '@oarlock/client/http/server-list';
import { ApiServerBalancer } from '@oarlock/cluster/process/api-server-balancer';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** A server that answers with its name, then with what it receives. */
class EchoServer {
  readonly name: string;
  readonly #server: Server;
  readonly sockets = new Set<Socket>();

  constructor(name: string) {
    this.name = name;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.sockets.add(socket);
      socket.write(`${name} `);
      socket.on('data', (received) => socket.write(received));
      socket.on('end', () => socket.end());
      socket.on('error', () => socket.destroy());
    });
  }
  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }
  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }
}

describe('the balancer of API servers', () => {
  const [a, b] = [new EchoServer('a'), new EchoServer('b')];
  let servers: ServerList;
  let balancer: ApiServerBalancer;
  beforeEach(async () => {
    await Promise.all([a.listen(), b.listen()]);
    servers = new ServerList([a.url, b.url], { random: () => 0.999 });
    balancer = new ApiServerBalancer({ servers, port: 0, log: silentLogger });
    await balancer.start();
  });
  afterEach(async () => {
    await balancer.stop();
    await Promise.all([a.close(), b.close()]);
  });

  const open = () => connect(balancer.port, '127.0.0.1');
  const exchange = (message: string): Promise<string> => {
    const socket = open();
    socket.end(message);
    return text(socket);
  };

  it('forwards both directions, also after one has ended', async () => {
    expect(await exchange('hello')).toBe('a hello');
  });

  it('connects to the next server if the preferred one accepts no connection', async () => {
    await a.close();
    expect(await exchange('one')).toBe('b one');
    expect(servers.preferred).toBe(b.url);
  });

  it('closes the connections of a server that a client finds failed, and no others', async () => {
    const first = open();
    await once(first, 'data');
    servers.markFailed(a.url);
    await once(first, 'close');
    const second = open();
    expect(String((await once(second, 'data'))[0])).toBe('b ');
    servers.markFailed(a.url);
    second.end('still open');
    expect(await text(second)).toBe('still open');
  });

  it('closes the connections of a server that leaves the cluster', async () => {
    const discovered = new ServerList(['https://127.0.0.1:1'], { random: () => 0, discovered: [a.url] });
    const other = new ApiServerBalancer({ servers: discovered, port: 0, log: silentLogger });
    await other.start();
    const socket = connect(other.port, '127.0.0.1');
    await once(socket, 'data');
    discovered.setDiscovered([b.url]);
    await once(socket, 'close');
    await other.stop();
  });

  it('closes the connection of a program if no server accepts one', async () => {
    await Promise.all([a.close(), b.close()]);
    const socket = open();
    await once(socket, 'close');
    expect(socket.bytesRead).toBe(0);
  });

  it('stops with open connections', async () => {
    const socket = open();
    await once(socket, 'data');
    await balancer.stop();
    await once(socket, 'close');
    await balancer.start();
  });
});

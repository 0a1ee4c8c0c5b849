import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import type { DnsChanges, DnsServer } from '@oarlock/spi/dns';
import { addressBytes } from './addresses.ts';
import { answer, noError, noSuchName, parseQuestion, refusedCode } from './message.ts';

const typeA = 1;
const typeAaaa = 28;

export interface DnsServerOptions {
  readonly address: string;
  readonly port: number;
  readonly clusterDomain: string;
}

interface Records {
  readonly v4: readonly Buffer[];
  readonly v6: readonly Buffer[];
}

/** A DNS server for A and AAAA records of cluster names, over UDP. */
export class __Class__ implements DnsServer {
  readonly address: string;
  readonly clusterDomain: string;
  readonly #port: number;
  #records = new Map<string, Records>();
  /** Number of names at or below each name: a name without records exists if there are names below it (RFC 8020). */
  readonly #namesBelow = new Map<string, number>();
  #socket: Socket | undefined;

  constructor({ address, port, clusterDomain }: DnsServerOptions) {
    this.address = address;
    this.#port = port;
    this.clusterDomain = clusterDomain.toLowerCase();
  }

  /** The port that the server listens on, once started. */
  get port(): number {
    return this.#socket?.address().port ?? this.#port;
  }

  async start(signal?: AbortSignal): Promise<void> {
    const socket = createSocket(isIPv6(this.address) ? 'udp6' : 'udp4');
    this.#socket = socket;
    socket.on('message', (message, { address, port }) => {
      const reply = this.#reply(message);
      // a client that no longer listens is not an error
      if (reply !== undefined) socket.send(reply, port, address, () => {});
    });
    socket.bind(this.#port, this.address);
    await once(socket, 'listening', { ...(signal && { signal }) });
  }

  async stop(): Promise<void> {
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket === undefined) return;
    const closed = once(socket, 'close');
    socket.close();
    await closed;
  }

  async apply({ replace, set, removed }: DnsChanges): Promise<void> {
    // conversions, which may throw, come first: changes are applied completely or not at all
    const added = set.map(({ name, addresses }): [string, Records] => {
      const all = addresses.map(addressBytes);
      return [name.toLowerCase(), { v4: all.filter(({ length }) => length === 4), v6: all.filter(({ length }) => length === 16) }];
    });
    if (replace) {
      this.#records = new Map();
      this.#namesBelow.clear();
    }
    for (const name of removed) if (this.#records.delete(name.toLowerCase())) this.#count(name.toLowerCase(), -1);
    for (const [name, records] of added) {
      if (!this.#records.has(name)) this.#count(name, 1);
      this.#records.set(name, records);
    }
  }

  #count(name: string, difference: number): void {
    for (let at: string = name; at !== ''; at = at.includes('.') ? at.slice(at.indexOf('.') + 1) : '') {
      const count = (this.#namesBelow.get(at) ?? 0) + difference;
      if (count > 0) this.#namesBelow.set(at, count);
      else this.#namesBelow.delete(at);
    }
  }

  #reply(message: Buffer): Buffer | undefined {
    const question = parseQuestion(message);
    if (question === undefined) return undefined;
    const name = question.name.toLowerCase();
    if (name === this.clusterDomain) return answer(message, question, noError, []);
    const suffix = `.${this.clusterDomain}`;
    if (!name.endsWith(suffix)) return answer(message, question, refusedCode, []);
    const inside = name.slice(0, -suffix.length);
    if (!this.#namesBelow.has(inside)) return answer(message, question, noSuchName, []);
    const { v4 = [], v6 = [] } = this.#records.get(inside) ?? {};
    return answer(message, question, noError, question.type === typeA ? v4 : question.type === typeAaaa ? v6 : []);
  }
}

import type { PluginTemplate } from './plugin-templates.ts';

export const volume: PluginTemplate = {
  dependencies: ['@oarlock/api'],
  section: { key: 'volumes', many: true },
  config: '{}',
  summary:
    'Volumes of the CSI driver name `__ID__`: an empty directory that lives as long as its pod. A pod asks for one with `csi: { driver: __ID__ }`.',
  keys: ['`{}`: none. Volume attributes are refused: there are none either.'],
  tests: 'The volume contract. Following API objects and giving files to a group are not claimed.',
  files: {
    'src/directory-volumes.ts': `|import { chmod, mkdir, rm } from 'node:fs/promises';
|import type { Volume } from '@oarlock/api/types/core-v1';
|import { VolumeError, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';

/** A directory for each volume of each pod. All that is known of it is on disk: a restart of the kubelet changes nothing. */
export class DirectoryVolumes implements VolumeDriver {
  supports(volume: Volume): boolean {
    return volume.csi?.driver === '__ID__';
  }

  async mount({ volume, path }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const unknown = Object.keys(volume.csi?.volumeAttributes ?? {});
    if (unknown.length > 0) throw new VolumeError('InvalidArgument', \`there are no volume attributes \${unknown.join(', ')}\`);
    await mkdir(path, { recursive: true });
    await chmod(path, 0o777); // what mkdir made went through the umask, and any user of the pod may write
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await rm(path, { recursive: true, force: true });
  }
}
`,
    'src/plugin.ts': `|import { Volumes } from '@oarlock/spi/volume';
|import { z } from 'zod';
|import { DirectoryVolumes } from './directory-volumes.ts';

export default Volumes.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  create: () => new DirectoryVolumes(),
});
`,
    'test/contract.test.ts': `|import { volumeContract } from '@oarlock/spi/volume.contract';
|import { DirectoryVolumes } from '../src/directory-volumes.ts';

volumeContract('__ID__', async () => ({
  driver: new DirectoryVolumes(),
  reopen: async () => new DirectoryVolumes(),
  sample: (name) => ({ volume: { name, csi: { driver: '__ID__' } } }),
  broken: (name) => ({ volume: { name, csi: { driver: '__ID__', volumeAttributes: { size: 'large' } } } }),
  lacks: { refreshing: 'it has no content of its own', fsGroup: 'it leaves groups alone' },
}));
`,
  },
};

export const proxy: PluginTemplate = {
  section: { key: 'proxy', many: false },
  config: '{}',
  summary:
    'A skeleton of a service proxy: `apply` is refused with an error of code `Unsupported`, and its probe says that it cannot be used yet.',
  keys: ['`{}`: none yet'],
  tests: 'The proxy contract. A case that fails says what is to be written.',
  steps: [
    'Read the comments of `ServiceProxy` and `ServicePort` in `@oarlock/spi/proxy`.',
    'Write `apply` in `src/proxy.ts`: first the whole state (`replace: true`), then differences that never drop what stays.',
    'Run the contract as you go. Give its fixture in `test/contract.test.ts` addresses that this machine can listen on, and name in `lacks` what the proxy will never do.',
    'Write a probe that looks for what is needed, and state the config here.',
  ],
  files: {
    'src/proxy.ts': `|import type { ServiceProxy } from '@oarlock/spi/proxy';

export type ProxyErrorCode = 'Unsupported';
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly code: ProxyErrorCode;
  constructor(code: ProxyErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export class __Class__ implements ServiceProxy {
  apply(): Promise<never> {
    const what = 'send what comes to the cluster IPs of a ServicePort to one of its endpoints';
    return Promise.reject(new ProxyError('Unsupported', \`write apply in src/proxy.ts: \${what}\`));
  }
}
`,
    'src/plugin.ts': `|import { unavailable } from '@oarlock/kernel/plugin';
|import { Proxy } from '@oarlock/spi/proxy';
|import { z } from 'zod';
|import { __Class__ } from './proxy.ts';

export default Proxy.plugin({
  id: '__ID__',
  config: z.strictObject({}),
  // take this away when it does something
  probe: async () => unavailable('__ID__ is a skeleton: its methods are still to be written'),
  create: () => new __Class__(),
});
`,
    'test/contract.test.ts': `|import { proxyContract } from '@oarlock/spi/proxy.contract';
|import { __Class__ } from '../src/proxy.ts';

proxyContract('__ID__', async () => ({
  proxy: new __Class__(),
  podAddresses: [1, 2, 3, 4].map((n) => \`127.130.7.\${n}\`),
  serviceAddresses: [1, 2, 3, 4].map((n) => \`127.97.7.\${n}\`),
  // what the proxy will never do, with the reason
  lacks: {},
  dispose: async () => {},
}));
`,
  },
};

export const dns: PluginTemplate = {
  section: { key: 'dns', many: false },
  config: '{ address: 127.0.0.1, port: 5353 }',
  summary:
    'Answers the addresses of cluster names over UDP. It has no TCP, SRV and CNAME records, forwards nothing, and refuses names outside the cluster.',
  keys: ['| `address` | `127.0.0.1` | the address to answer at |', '| `port` | `53` | the port |'],
  needs: '`cluster`, for the domain',
  tests: 'The DNS contract, asked over the network. What it does not do is not claimed: TCP, forwarding, SRV, CNAME.',
  files: {
    'src/message.ts': `export const noError = 0;
export const noSuchName = 3;
export const refused = 5;
const headerBytes = 12;
const datagramBytes = 512;
const secondsToLive = 5;

export interface Question {
  /** As it was asked, without the last dot. */
  readonly name: string;
  readonly type: number;
  /** The bytes of the question, to be sent back. */
  readonly bytes: Buffer;
}

/** One question, or undefined for what is no question or has no answer (RFC 1035, 4.1). */
export function parseQuestion(message: Buffer): Question | undefined {
  if (message.length < headerBytes || message.readUInt16BE(4) !== 1) return undefined;
  const flags = message.readUInt16BE(2);
  if ((flags & 0x8000) !== 0 || (flags & 0x7800) !== 0) return undefined; // an answer, or another operation
  const labels: string[] = [];
  let at = headerBytes;
  for (;;) {
    const length = message[at];
    // pointers have no business in a question
    if (length === undefined || length > 63 || at - headerBytes > 254) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return { name: labels.join('.'), type: message.readUInt16BE(at), bytes: message.subarray(headerBytes, at + 4) };
}

/** An answer with addresses as bytes. When they do not fit into a datagram, it says so and holds those that do. */
export function answer(asked: Buffer, { type, bytes }: Question, code: number, addresses: readonly Buffer[]): Buffer {
  const records: Buffer[] = [];
  let size = headerBytes + bytes.length;
  for (const address of addresses) {
    const record = Buffer.alloc(12 + address.length);
    record.writeUInt16BE(0xc000 | headerBytes, 0); // the name of the question
    record.writeUInt16BE(type, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(secondsToLive, 6);
    record.writeUInt16BE(address.length, 10);
    address.copy(record, 12);
    if (size + record.length > datagramBytes) break;
    size += record.length;
    records.push(record);
  }
  const header = Buffer.alloc(headerBytes);
  asked.copy(header, 0, 0, 2);
  const truncated = records.length < addresses.length ? 0x0200 : 0;
  header.writeUInt16BE(0x8400 | truncated | (asked.readUInt16BE(2) & 0x0100) | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, bytes, ...records]);
}
`,
    'src/addresses.ts': `|import { BlockList, isIPv4 } from 'node:net';

/** An address as DNS writes it: 4 or 16 bytes. */
export function addressBytes(ip: string): Buffer {
  if (isIPv4(ip)) return Buffer.from(ip.split('.').map(Number));
  const list = new BlockList();
  list.addAddress(ip, 'ipv6'); // throws on what is no address
  const [text = '', tail] = dotted(ip).split('%')[0]?.split('::') ?? [];
  const words = (part: string | undefined) =>
    part === undefined || part === '' ? [] : part.split(':').map((word) => Number.parseInt(word, 16));
  const [head, end] = [words(text), words(tail)];
  const all = [...head, ...Array<number>(8 - head.length - end.length).fill(0), ...end];
  const bytes = Buffer.alloc(16);
  for (const [index, word] of all.entries()) bytes.writeUInt16BE(word, index * 2);
  return bytes;
}

/** \`::ffff:10.0.0.1\` with its last part in hex. */
function dotted(ip: string): string {
  const last = ip.slice(ip.lastIndexOf(':') + 1);
  if (!isIPv4(last)) return ip;
  const bytes = Buffer.from(last.split('.').map(Number));
  return \`\${ip.slice(0, -last.length)}\${bytes.readUInt16BE(0).toString(16)}:\${bytes.readUInt16BE(2).toString(16)}\`;
}
`,
    'src/dns-server.ts': `|import { createSocket, type Socket } from 'node:dgram';
|import { once } from 'node:events';
|import { isIPv6 } from 'node:net';
|import type { DnsChanges, DnsServer } from '@oarlock/spi/dns';
|import { addressBytes } from './addresses.ts';
|import { answer, noError, noSuchName, parseQuestion, refused } from './message.ts';

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

/** Addresses of cluster names, over UDP. */
export class __Class__ implements DnsServer {
  readonly address: string;
  readonly clusterDomain: string;
  readonly #port: number;
  #records = new Map<string, Records>();
  /** How many names are at or below each name: one without records of its own is there all the same (RFC 8020). */
  readonly #below = new Map<string, number>();
  #socket: Socket | undefined;

  constructor({ address, port, clusterDomain }: DnsServerOptions) {
    this.address = address;
    this.#port = port;
    this.clusterDomain = clusterDomain.toLowerCase();
  }

  /** The port it answers at, once started. */
  get port(): number {
    return this.#socket?.address().port ?? this.#port;
  }

  async start(signal?: AbortSignal): Promise<void> {
    const socket = createSocket(isIPv6(this.address) ? 'udp6' : 'udp4');
    this.#socket = socket;
    socket.on('message', (message, { address, port }) => {
      const reply = this.#reply(message);
      // who asked may be gone by now: nobody is left to be told
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
    // everything that can fail comes first: a change is made whole or not at all
    const fresh = set.map(({ name, addresses }): [string, Records] => {
      const all = addresses.map(addressBytes);
      return [name.toLowerCase(), { v4: all.filter(({ length }) => length === 4), v6: all.filter(({ length }) => length === 16) }];
    });
    if (replace) {
      this.#records = new Map();
      this.#below.clear();
    }
    for (const name of removed) if (this.#records.delete(name.toLowerCase())) this.#count(name.toLowerCase(), -1);
    for (const [name, records] of fresh) {
      if (!this.#records.has(name)) this.#count(name, 1);
      this.#records.set(name, records);
    }
  }

  #count(name: string, by: number): void {
    for (let at: string = name; at !== ''; at = at.includes('.') ? at.slice(at.indexOf('.') + 1) : '') {
      const left = (this.#below.get(at) ?? 0) + by;
      if (left > 0) this.#below.set(at, left);
      else this.#below.delete(at);
    }
  }

  #reply(message: Buffer): Buffer | undefined {
    const question = parseQuestion(message);
    if (question === undefined) return undefined;
    const name = question.name.toLowerCase();
    if (name === this.clusterDomain) return answer(message, question, noError, []);
    const suffix = \`.\${this.clusterDomain}\`;
    if (!name.endsWith(suffix)) return answer(message, question, refused, []);
    const inside = name.slice(0, -suffix.length);
    if (!this.#below.has(inside)) return answer(message, question, noSuchName, []);
    const { v4 = [], v6 = [] } = this.#records.get(inside) ?? {};
    return answer(message, question, noError, question.type === typeA ? v4 : question.type === typeAaaa ? v6 : []);
  }
}
`,
    'src/plugin.ts': `|import { Cluster } from '@oarlock/spi/cluster';
|import { Dns } from '@oarlock/spi/dns';
|import { z } from 'zod';
|import { __Class__ } from './dns-server.ts';

export default Dns.plugin({
  id: '__ID__',
  config: z.strictObject({
    address: z.union([z.ipv4(), z.ipv6()]).default('127.0.0.1'),
    port: z.int().min(0).max(65_535).default(53),
  }),
  needs: { cluster: Cluster },
  create: ({ config, cluster }) => new __Class__({ ...config, clusterDomain: cluster.domain }),
});
`,
    'test/contract.test.ts': `|import { dnsContract } from '@oarlock/spi/dns.contract';
|import { expect, it } from 'vitest';
|import { addressBytes } from '../src/addresses.ts';
|import { __Class__ } from '../src/dns-server.ts';

dnsContract('__ID__', async () => {
  const server = new __Class__({ address: '127.0.0.1', port: 0, clusterDomain: 'cluster.local' });
  await server.start();
  return {
    server,
    endpoint: { ip: server.address, port: server.port },
    lacks: { tcp: 'it answers over UDP only', forward: 'it has no upstream', srv: 'it has addresses only', cname: 'it has addresses only' },
    dispose: () => server.stop(),
  };
});

it('writes addresses of both families', () => {
  expect(addressBytes('10.96.0.10').toString('hex')).toBe('0a60000a');
  expect(addressBytes('fd00::1').toString('hex')).toBe('fd000000000000000000000000000001');
  expect(addressBytes('::').toString('hex')).toBe('0'.repeat(32));
  expect(addressBytes('::ffff:10.0.0.1').toString('hex')).toBe(\`\${'0'.repeat(20)}ffff0a000001\`);
  expect(() => addressBytes('example')).toThrow();
});
`,
  },
};

import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isAbsolute, join } from 'node:path';
import { parse } from 'smol-toml';
import { z } from 'zod';
import { errorText } from '@oarlock/primitives/error-text';
import { OciError } from '../oci-error.ts';
import { parseUrl } from './parse-url.ts';

export type Capability = 'pull' | 'resolve' | 'push';

/** A server from which a registry's images are pulled: the registry itself or a mirror. */
export interface RegistryHost {
  /** Base URL of the API without a slash at the end, such as `https://mirror.example.com/v2`. */
  readonly baseUrl: string;
  readonly capabilities: ReadonlySet<Capability>;
  /** True if this is not the registry itself: requests name the registry in the parameter `ns`. */
  readonly isMirror: boolean;
  readonly tls: TlsSettings;
  readonly headers: Readonly<Record<string, string>>;
  readonly dialTimeoutMs: number;
}
export interface TlsSettings {
  readonly ca: readonly string[];
  readonly certificates: readonly { readonly cert: string; readonly key: string }[];
  readonly skipVerify: boolean;
}

const strings = z.union([z.string(), z.array(z.string())]);
/** One table of hosts.toml (containerd, docs/hosts.md). Unknown keys are ignored, as by containerd. */
const hostSchema = z.object({
  capabilities: z.array(z.enum(['pull', 'resolve', 'push'])).optional(),
  ca: strings.optional(),
  client: z.union([z.string(), z.array(strings)]).optional(),
  skip_verify: z.boolean().optional(),
  header: z.record(z.string(), strings).optional(),
  override_path: z.boolean().optional(),
  dial_timeout: z.string().optional(),
});
const fileSchema = hostSchema.extend({ server: z.string().optional(), host: z.record(z.string(), hostSchema).optional() });
type HostTable = z.infer<typeof hostSchema>;

const defaultDialTimeoutMs = 30_000;
const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function durationMs(text: string, file: string): number {
  const [, number = '', unit = ''] = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const factor = units[unit];
  if (factor === undefined) throw new OciError('FailedPrecondition', `${file}: dial_timeout: "${text}" is not a duration such as "30s"`);
  return Number(number) * factor;
}

/** Returns the URL of a registry without configuration: https, and http for the loopback interface, as containerd does. */
function defaultServer(host: string): string {
  if (host === 'docker.io') return 'https://registry-1.docker.io';
  const name = host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  const isLoopback = name === 'localhost' || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'));
  return `${isLoopback && !host.endsWith(':443') ? 'http' : 'https'}://${host}`;
}

/** The directories of a host, the most specific first. A colon is not allowed in names on all systems, so `host:5000` is also `host_5000_`. */
function candidates(directory: string, host: string): readonly string[] {
  const [, name, port] = /^(.*):(\d+)$/.exec(host) ?? [];
  return [...(name === undefined ? [] : [`${name}_${port}_`]), host, '_default'].map((each) => join(directory, each));
}

async function readIfFile(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new OciError('FailedPrecondition', `reading ${file}: ${errorText(error)}`, { cause: error });
  }
}

/**
 * Returns the servers of a registry in the order in which they are tried: the mirrors of `DIRECTORY/HOST/hosts.toml`, then the registry. The file is read for
 * each pull, so that changes apply without a restart.
 *
 * @throws OciError `FailedPrecondition` with the file and field that is wrong
 */
export async function loadHosts(directory: string | undefined, host: string): Promise<readonly RegistryHost[]> {
  for (const folder of directory === undefined ? [] : candidates(directory, host)) {
    const file = join(folder, 'hosts.toml');
    const text = await readIfFile(file);
    if (text !== undefined) return parseHosts(text, { file, folder, host });
  }
  return [await toHost(defaultServer(host), {}, { file: '', folder: '', isMirror: false })];
}

interface HostsFile {
  readonly file: string;
  readonly folder: string;
  readonly host: string;
}

async function parseHosts(text: string, { file, folder, host }: HostsFile): Promise<readonly RegistryHost[]> {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    // without the error as cause: it quotes lines of the file, which may hold secrets of headers
    throw new OciError('FailedPrecondition', `${file}: ${errorText(error).split('\n')[0]}`);
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new OciError('FailedPrecondition', `${file}: ${withoutUserInfo(issue?.path.join('.') ?? '')}: ${issue?.message}`);
  }
  const { server, host: mirrors = {}, ...own } = parsed.data;
  const hosts: RegistryHost[] = [];
  for (const [url, table] of Object.entries(mirrors)) hosts.push(await toHost(url, table, { file, folder, isMirror: true }));
  hosts.push(await toHost(server ?? defaultServer(host), own, { file, folder, isMirror: false }));
  return hosts;
}

/** Returns a text without what may be the password of a URL. */
const withoutUserInfo = (text: string): string => text.replace(/(?<=\/\/|^)[^/]*@/, '');

async function toHost(
  server: string,
  table: HostTable,
  { file, folder, isMirror }: { readonly file: string; readonly folder: string; readonly isMirror: boolean },
): Promise<RegistryHost> {
  const url = parseUrl(server.includes('://') ? server : `https://${server}`);
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.username !== '')
    throw new OciError('FailedPrecondition', `${file}: "${withoutUserInfo(server)}" is not an http or https URL without credentials`);
  const path = url.pathname.replace(/\/+$/, '');
  const headers = Object.entries(table.header ?? {}).map(([name, value]) => [name.toLowerCase(), [value].flat().join(', ')] as const);
  return {
    baseUrl: `${url.origin}${table.override_path === true || path === '/v2' || path.endsWith('/v2') ? path : `${path}/v2`}`,
    capabilities: new Set(table.capabilities ?? ['pull', 'resolve', 'push']),
    isMirror,
    tls: await tlsOf(table, file, folder),
    headers: Object.fromEntries(headers),
    dialTimeoutMs: table.dial_timeout === undefined ? defaultDialTimeoutMs : durationMs(table.dial_timeout, file),
  };
}

async function tlsOf({ ca, client, skip_verify: skipVerify = false }: HostTable, file: string, folder: string): Promise<TlsSettings> {
  const load = async (name: string) => {
    const path = isAbsolute(name) ? name : join(folder, name);
    const text = await readIfFile(path);
    if (text === undefined) throw new OciError('FailedPrecondition', `${file}: the file ${path} does not exist`);
    return text;
  };
  const pairs = client === undefined ? [] : [client].flat();
  return {
    ca: await Promise.all((ca === undefined ? [] : [ca].flat()).map(load)),
    certificates: await Promise.all(
      pairs.map(async (pair) => {
        // a single file has both the certificate and the key
        const [cert = '', key = cert] = [pair].flat();
        return { cert: await load(cert), key: key === '' ? await load(cert) : await load(key) };
      }),
    ),
    skipVerify,
  };
}

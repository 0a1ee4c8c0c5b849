import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import type { HttpClientOptions } from './http-client.ts';

export type KubeconfigErrorCode = 'Unreadable' | 'Malformed' | 'NoContext' | 'NoCluster' | 'NoUser' | 'Unsupported';

/** Why a kubeconfig gives no way to a cluster. Never quotes secrets. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';
  readonly code: KubeconfigErrorCode;
  constructor(code: KubeconfigErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface Kubeconfig {
  readonly options: Pick<
    HttpClientOptions,
    'server' | 'ca' | 'cert' | 'key' | 'token' | 'tokenFile' | 'tlsServerName' | 'insecureSkipTlsVerify'
  >;
  readonly context: string;
  /** That of the context; `default` when it names none. */
  readonly namespace: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads a kubeconfig file and picks a context: `context`, or the current one. Files it names are read too, relative to its folder. @throws KubeconfigError */
export async function loadKubeconfig(file: string, { context }: { readonly context?: string } = {}): Promise<Kubeconfig> {
  return parseKubeconfig(await read(file), { folder: dirname(file), ...(context !== undefined && { context }) });
}

/** As `loadKubeconfig`, of a text. `folder`: what relative file names are relative to. @throws KubeconfigError */
export async function parseKubeconfig(
  text: string,
  { context: wanted, folder }: { readonly context?: string; readonly folder: string },
): Promise<Kubeconfig> {
  const config = parseYaml(text);
  const context = wanted ?? str(config, 'current-context') ?? '';
  if (context === '') throw new KubeconfigError('NoContext', 'the kubeconfig has no current-context');
  const chosen =
    entry(config, 'contexts', context, 'context') ?? fail('NoContext', `the kubeconfig has no context ${JSON.stringify(context)}`);
  const clusterName = str(chosen, 'cluster') ?? '';
  const cluster =
    entry(config, 'clusters', clusterName, 'cluster') ?? fail('NoCluster', `the kubeconfig has no cluster ${JSON.stringify(clusterName)}`);
  const userName = str(chosen, 'user') ?? '';
  const user =
    userName === ''
      ? {}
      : (entry(config, 'users', userName, 'user') ?? fail('NoUser', `the kubeconfig has no user ${JSON.stringify(userName)}`));
  for (const [from, keys] of [
    [user, ['exec', 'auth-provider', 'username', 'as']],
    [cluster, ['proxy-url']],
  ] as const) {
    const key = keys.find((name) => from[name] !== undefined);
    if (key !== undefined)
      throw new KubeconfigError('Unsupported', `the kubeconfig uses ${key}, which is not supported; certificates and tokens are`);
  }
  const server = str(cluster, 'server') ?? fail('NoCluster', `the cluster ${JSON.stringify(clusterName)} has no server`);
  const pem = (of: Fields, key: string) => dataOrFile(of, key, folder);
  const [ca, cert, key] = await Promise.all([
    pem(cluster, 'certificate-authority'),
    pem(user, 'client-certificate'),
    pem(user, 'client-key'),
  ]);
  const [token, tokenFile, tlsServerName] = [str(user, 'token'), str(user, 'tokenFile'), str(cluster, 'tls-server-name')];
  return {
    context,
    namespace: str(chosen, 'namespace') ?? 'default',
    options: {
      server,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      // As kubectl has it: the file is newer than what was written beside it.
      ...(tokenFile !== undefined ? { tokenFile: resolve(folder, tokenFile) } : token !== undefined && { token }),
      ...(tlsServerName !== undefined && { tlsServerName }),
      ...(cluster['insecure-skip-tls-verify'] === true && { insecureSkipTlsVerify: true }),
    },
  };
}

function parseYaml(text: string): Fields {
  let value: unknown;
  try {
    value = parse(text);
  } catch (cause) {
    throw new KubeconfigError('Malformed', 'the kubeconfig is no YAML', { cause });
  }
  if (!isFields(value) || (value['kind'] !== undefined && value['kind'] !== 'Config'))
    throw new KubeconfigError('Malformed', 'the file is no kubeconfig');
  return value;
}

async function dataOrFile(from: Fields, key: string, folder: string): Promise<string | undefined> {
  const data = str(from, `${key}-data`);
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8');
  const file = str(from, key);
  return file === undefined ? undefined : read(resolve(folder, file));
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new KubeconfigError('Unreadable', `${file} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** `{ name, [kind]: {...} }` in a list of such. */
function entry(config: Fields, list: string, name: string, kind: string): Fields | undefined {
  const items = config[list];
  const found: unknown = Array.isArray(items) ? items.find((item) => isFields(item) && item['name'] === name) : undefined;
  if (!isFields(found)) return undefined;
  const value = found[kind];
  return isFields(value) ? value : {};
}

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);
const str = (from: Fields, key: string): string | undefined => {
  const value = from[key];
  return typeof value === 'string' && value !== '' ? value : undefined;
};
const fail = (code: KubeconfigErrorCode, message: string): never => {
  throw new KubeconfigError(code, message);
};

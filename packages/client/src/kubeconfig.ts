import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { parse } from 'yaml';
import { ExecCredential, execVersions, type ExecConfig } from './auth/exec-credential.ts';
import type { HttpClientOptions } from './http/client.ts';
import { errorText } from '@oarlock/primitives/error-text';

export type KubeconfigErrorCode = 'Unreadable' | 'Malformed' | 'NoContext' | 'NoCluster' | 'NoUser' | 'Unsupported';

/** The error if a kubeconfig cannot be used. The message never contains secrets. */
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
    'server' | 'ca' | 'cert' | 'key' | 'token' | 'tokenFile' | 'credentials' | 'tlsServerName' | 'insecureSkipTlsVerify'
  >;
  readonly context: string;
  /** Namespace of the context; `default` if it has none. */
  readonly namespace: string;
}

const defaultPath = '/usr/local/bin:/usr/bin:/bin';
type Fields = Readonly<Record<string, unknown>>;

export interface KubeconfigOptions {
  /** Default: the current context. */
  readonly context?: string;
  /** Environment that exec programs inherit. Default: only a PATH. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly clock?: Pick<Clock, 'now'>;
}

/** Reads a kubeconfig file and the files it refers to, and selects a context. @throws KubeconfigError if a file is unreadable or invalid */
export async function loadKubeconfig(file: string, options: KubeconfigOptions = {}): Promise<Kubeconfig> {
  return parseKubeconfig(await read(file), { folder: dirname(resolve(file)), ...options });
}

/** Parses a kubeconfig; relative file names are resolved against `folder`. @throws KubeconfigError if the kubeconfig is invalid */
export async function parseKubeconfig(
  text: string,
  {
    context: requestedContext,
    folder,
    environment = { PATH: defaultPath },
    clock = systemClock,
  }: KubeconfigOptions & { readonly folder: string },
): Promise<Kubeconfig> {
  const config = parseYaml(text);
  const context = requestedContext ?? str(config, 'current-context') ?? '';
  if (context === '') throw new KubeconfigError('NoContext', 'the kubeconfig has no current-context');
  const chosen =
    entry(config, { list: 'contexts', name: context, kind: 'context' }) ??
    fail('NoContext', `the kubeconfig has no context ${JSON.stringify(context)}`);
  const clusterName = str(chosen, 'cluster') ?? '';
  const cluster =
    entry(config, { list: 'clusters', name: clusterName, kind: 'cluster' }) ??
    fail('NoCluster', `the kubeconfig has no cluster ${JSON.stringify(clusterName)}`);
  const userName = str(chosen, 'user') ?? '';
  const user =
    userName === ''
      ? {}
      : (entry(config, { list: 'users', name: userName, kind: 'user' }) ??
        fail('NoUser', `the kubeconfig has no user ${JSON.stringify(userName)}`));
  for (const [from, keys] of [
    [user, ['auth-provider', 'username', 'as']],
    [cluster, ['proxy-url']],
  ] as const) {
    const key = keys.find((name) => from[name] !== undefined);
    if (key !== undefined)
      throw new KubeconfigError('Unsupported', `the kubeconfig uses ${key}, which is not supported; certificates, tokens and exec are`);
  }
  const server = str(cluster, 'server') ?? fail('NoCluster', `the cluster ${JSON.stringify(clusterName)} has no server`);
  const pem = (of: Fields, key: string) => dataOrFile(of, key, folder);
  const [ca, cert, key] = await Promise.all([
    pem(cluster, 'certificate-authority'),
    pem(user, 'client-certificate'),
    pem(user, 'client-key'),
  ]);
  const exec = user['exec'] === undefined ? undefined : execPlugin(user['exec'], { cluster, ca, folder });
  const [token, tokenFile, tlsServerName] = [str(user, 'token'), str(user, 'tokenFile'), str(cluster, 'tls-server-name')];
  return {
    context,
    namespace: str(chosen, 'namespace') ?? 'default',
    options: {
      server,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      // as in client-go: the token file has precedence, because it is renewed
      ...(tokenFile !== undefined ? { tokenFile: resolve(folder, tokenFile) } : token !== undefined && { token }),
      // as in client-go: exec is used only without a token
      ...(exec !== undefined &&
        token === undefined &&
        tokenFile === undefined && { credentials: new ExecCredential({ plugin: exec, clock, environment }) }),
      ...(tlsServerName !== undefined && { tlsServerName }),
      ...(cluster['insecure-skip-tls-verify'] === true && { insecureSkipTlsVerify: true }),
    },
  };
}

/** Parses the `exec` entry of a user. @throws KubeconfigError `Malformed` if the entry is invalid */
function execPlugin(
  exec: unknown,
  { cluster, ca, folder }: { readonly cluster: Fields; readonly ca: string | undefined; readonly folder: string },
): ExecConfig {
  const wrong = (field: string, what: string) => fail('Malformed', `the kubeconfig's exec.${field}: ${what}`);
  if (!isFields(exec)) return fail('Malformed', "the kubeconfig's exec is no object");
  const apiVersion = str(exec, 'apiVersion') ?? wrong('apiVersion', 'Required value');
  if (!execVersions.includes(apiVersion))
    wrong('apiVersion', `${JSON.stringify(apiVersion)} is not supported; supported are ${execVersions.join(', ')}`);
  const mode = str(exec, 'interactiveMode') ?? (apiVersion.endsWith('/v1') ? wrong('interactiveMode', 'Required value') : 'IfAvailable');
  if (mode === 'Always') wrong('interactiveMode', 'Always is not supported, because exec programs run non-interactively');
  if (mode !== 'Never' && mode !== 'IfAvailable') wrong('interactiveMode', `${JSON.stringify(mode)} is none of Never, IfAvailable, Always`);
  const list = (name: string): readonly unknown[] => {
    const value = exec[name] ?? [];
    return Array.isArray(value) ? value : wrong(name, 'must be a list');
  };
  return {
    apiVersion,
    command: str(exec, 'command') ?? wrong('command', 'Required value'),
    args: list('args').map((arg) => (typeof arg === 'string' ? arg : wrong('args', 'must be strings'))),
    env: Object.fromEntries(
      list('env').map((each) =>
        isFields(each) && typeof each['name'] === 'string' && typeof each['value'] === 'string'
          ? [each['name'], each['value']]
          : wrong('env', 'must have a name and a value each'),
      ),
    ),
    installHint: str(exec, 'installHint') ?? '',
    ...(exec['provideClusterInfo'] === true && { cluster: clusterInfo(cluster, ca) }),
    folder,
  };
}

/** Returns `spec.cluster` of an ExecCredential. */
function clusterInfo(cluster: Fields, ca: string | undefined): object {
  const extensions: unknown = cluster['extensions'];
  const own: unknown = Array.isArray(extensions)
    ? extensions.find((each) => isFields(each) && each['name'] === 'client.authentication.k8s.io/exec')
    : undefined;
  return {
    server: cluster['server'],
    ...(cluster['tls-server-name'] !== undefined && { 'tls-server-name': cluster['tls-server-name'] }),
    ...(cluster['insecure-skip-tls-verify'] === true && { 'insecure-skip-tls-verify': true }),
    ...(ca !== undefined && { 'certificate-authority-data': Buffer.from(ca).toString('base64') }),
    config: isFields(own) ? (own['extension'] ?? null) : null,
  };
}

function parseYaml(text: string): Fields {
  let value: unknown;
  try {
    // warnings of the parser would quote credentials
    value = parse(text, { prettyErrors: false, logLevel: 'error' });
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
    throw new KubeconfigError('Unreadable', `${file} cannot be read: ${errorText(cause)}`, { cause });
  }
}

/** Returns `[kind]` of the list item with this name: `{ name, [kind]: {...} }`. */
function entry(
  config: Fields,
  { list, name, kind }: { readonly list: string; readonly name: string; readonly kind: string },
): Fields | undefined {
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

import type { RegistryAuth } from '@oarlock/spi/runtime';
import { execa, ExecaError } from 'execa';
import { readFile } from 'node:fs/promises';
import { errorText } from '@oarlock/primitives/error-text';
import { OciError } from '../oci-error.ts';

/** Credentials in the forms that registries take: a password, a token to exchange for access tokens, or an access token. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
  readonly identityToken: string;
  readonly registryToken: string;
}

const hub = 'https://index.docker.io/v1/';
const helperTimeoutMs = 60_000;
const maxConfig = 1024 * 1024;

/** Returns the host and port of a server address: `https://index.docker.io/v1/` is `docker.io`. */
export function hostOfServer(address: string): string {
  const host = address
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '')
    .toLowerCase();
  return host === 'index.docker.io' || host === 'registry-1.docker.io' ? 'docker.io' : host;
}

/** Returns the credentials of a CRI request. @throws OciError `InvalidContent` if `auth` is malformed */
export function credentialsOf({ username, password, auth, identityToken, registryToken }: RegistryAuth): Credentials {
  const pair =
    auth !== undefined && auth !== '' && (username ?? '') === ''
      ? decodePair(auth)
      : { username: username ?? '', password: password ?? '' };
  return { ...pair, identityToken: identityToken ?? '', registryToken: registryToken ?? '' };
}

function decodePair(auth: string): Pick<Credentials, 'username' | 'password'> {
  const text = Buffer.from(auth, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) throw new OciError('InvalidContent', 'invalid credentials: auth is not the base64 of USERNAME:PASSWORD');
  // docker pads passwords with zero bytes
  return { username: text.slice(0, colon), password: text.slice(colon + 1).split('\u0000')[0] ?? '' };
}

type Json = Readonly<Record<string, unknown>>;
const objectOf = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

export interface DockerConfigOptions {
  /** File in the format of docker's config.json. */
  readonly file: string;
  /** PATH on which the credential helpers are found. */
  readonly helperPath: string;
}

/** Returns the credentials of a host from docker's config.json and its credential helpers; undefined if there are none. */
export async function dockerCredentials(
  host: string,
  { file, helperPath }: DockerConfigOptions,
  signal: AbortSignal,
): Promise<Credentials | undefined> {
  let config: Json;
  try {
    const text = await readFile(file, 'utf8');
    if (text.length > maxConfig) throw new Error(`it has more than ${maxConfig} bytes`);
    config = objectOf(JSON.parse(text));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    // the message of a syntax error contains a part of the file, which may be a secret
    const reason = error instanceof SyntaxError ? 'it is not JSON' : errorText(error);
    throw new OciError('FailedPrecondition', `reading credentials from ${file}: ${reason}`);
  }
  const ofHost = (table: Json) => Object.entries(table).find(([server]) => hostOfServer(server) === host)?.[1];
  const helper = textOf(ofHost(objectOf(config['credHelpers']))) || textOf(config['credsStore']);
  if (helper !== '') {
    const found = await queryHelper(helper, { server: host === 'docker.io' ? hub : host, path: helperPath }, signal);
    if (found) return found;
  }
  const entry = ofHost(objectOf(config['auths']));
  if (entry === undefined) return undefined;
  const { username, password, auth, identitytoken, registrytoken } = objectOf(entry);
  const credentials = credentialsOf({
    username: textOf(username),
    password: textOf(password),
    auth: textOf(auth),
    identityToken: textOf(identitytoken),
    registryToken: textOf(registrytoken),
  });
  return Object.values(credentials).every((value) => value === '') ? undefined : credentials;
}

/** Runs `docker-credential-NAME get` (github.com/docker/docker-credential-helpers). */
async function queryHelper(
  name: string,
  { server, path }: { readonly server: string; readonly path: string },
  signal: AbortSignal,
): Promise<Credentials | undefined> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name))
    throw new OciError('FailedPrecondition', `"${name}" is not the name of a credential helper`);
  const program = `docker-credential-${name}`;
  try {
    const { stdout } = await execa(program, ['get'], {
      input: server,
      env: { PATH: path },
      timeout: helperTimeoutMs,
      maxBuffer: maxConfig,
      cancelSignal: signal,
    });
    const { Username, Secret } = objectOf(JSON.parse(stdout));
    const secret = textOf(Secret);
    // with this user name the secret is an identity token
    return textOf(Username) === '<token>'
      ? { username: '', password: '', identityToken: secret, registryToken: '' }
      : { username: textOf(Username), password: secret, identityToken: '', registryToken: '' };
  } catch (error) {
    signal.throwIfAborted();
    const output = error instanceof ExecaError ? `${String(error.stdout)} ${String(error.stderr)}` : '';
    if (/credentials not found/i.test(output)) return undefined;
    const reason = error instanceof ExecaError ? error.shortMessage : 'its answer is not JSON';
    throw new OciError('FailedPrecondition', `the credential helper ${program} failed: ${reason}`);
  }
}

import { repositoryOf } from '@oarlock/api/component-helpers/image-reference';
import { isObject } from '@oarlock/api/json/json';
import type { Secret } from '@oarlock/api/types/core-v1';
import type { RegistryAuth } from '@oarlock/spi/runtime';

interface Credential {
  readonly pattern: string;
  readonly auth: RegistryAuth;
}

interface Entry {
  readonly username?: unknown;
  readonly password?: unknown;
  readonly auth?: unknown;
  readonly identitytoken?: unknown;
  readonly registrytoken?: unknown;
}

const maxSize = 1024 * 1024;
const textOr = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Parses a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. @throws Error if the Secret's content is malformed */
export function credentialsOf(secret: Secret): readonly Credential[] {
  const json = secret.data?.['.dockerconfigjson'];
  const legacy = secret.data?.['.dockercfg'];
  const encoded = json ?? legacy;
  if (encoded === undefined || encoded.length > maxSize) return [];
  const parsed = jsonOf(Buffer.from(encoded, 'base64').toString('utf8'), secret);
  const entries = json === undefined ? parsed : (parsed['auths'] ?? {});
  return Object.entries(entries).flatMap(([server, entry]: [string, Entry | null]) =>
    entry === null ? [] : [credentialOf(server, entry)],
  );
}

function jsonOf(text: string, { metadata }: Secret): Readonly<Record<string, Readonly<Record<string, Entry>>>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined; // the parser's message quotes the text, and readers of the pod's events may not read the Secret
  }
  if (!isObject(value)) throw new Error(`the pull secret ${metadata?.namespace}/${metadata?.name} contains no JSON object`);
  return value as never;
}

function credentialOf(server: string, entry: Entry): Credential {
  return {
    pattern: server
      .replace(/^https?:\/\//, '')
      .replace(/\/v[12]\/?$/, '')
      .replace(/\/$/, ''),
    auth: authOf(server, entry),
  };
}

function authOf(server: string, entry: Entry): RegistryAuth {
  const [username, password] = pairOf(entry);
  const identityToken = textOr(entry.identitytoken);
  const registryToken = textOr(entry.registrytoken);
  return {
    serverAddress: server,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(identityToken !== undefined && { identityToken }),
    ...(registryToken !== undefined && { registryToken }),
  };
}

function pairOf(entry: Entry): readonly [string | undefined, string | undefined] {
  const auth = textOr(entry.auth);
  if (auth === undefined) return [textOr(entry.username), textOr(entry.password)];
  const decoded = Buffer.from(auth, 'base64').toString('utf8');
  const at = decoded.indexOf(':');
  return at < 0 ? [decoded, undefined] : [decoded.slice(0, at), decoded.slice(at + 1)];
}

/** The host names of Docker Hub, which share credentials. */
const hubNames = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);

/**
 * Returns true if a credential's pattern matches a repository: `*.example.com/team` matches `eu.example.com/team/app`. A star matches within
 * one label of the host name; the path is a prefix.
 */
function matches(pattern: string, repository: string): boolean {
  const [wantedHost = '', ...wantedPath] = pattern.split('/');
  const [host = '', ...path] = repository.split('/');
  if (hubNames.has(wantedHost)) {
    if (!hubNames.has(host)) return false;
  } else {
    const wanted = wantedHost.split('.');
    const parts = host.split('.');
    if (
      wanted.length !== parts.length ||
      !wanted.every((part, index) => part === parts[index] || (part.includes('*') && glob(part, parts[index] ?? '')))
    )
      return false;
  }
  return path.join('/').startsWith(wantedPath.join('/'));
}

function glob(pattern: string, text: string): boolean {
  const [head = '', ...tails] = pattern.split('*');
  if (!text.startsWith(head)) return false;
  let at = head.length;
  for (const [index, tail] of tails.entries()) {
    if (index === tails.length - 1) return text.length - tail.length >= at && text.endsWith(tail);
    const found = text.indexOf(tail, at);
    if (found < 0) return false;
    at = found + tail.length;
  }
  return true;
}

/** Returns the credentials to try for an image, most specific first. */
export function credentialsFor(image: string, secrets: readonly Secret[]): readonly RegistryAuth[] {
  const repository = repositoryOf(image);
  const found: Credential[] = [];
  for (const secret of secrets) found.push(...credentialsOf(secret).filter(({ pattern }) => matches(pattern, repository)));
  return found.sort((a, b) => b.pattern.length - a.pattern.length).map(({ auth }) => auth);
}

import {
  abstained,
  Authn,
  authenticated,
  headerValues,
  rejected,
  type Authenticator,
  type AuthnResult,
  type Credentials,
} from '@oarlock/spi/authn';
import { z } from 'zod';

const header = z
  .string()
  .regex(/^[A-Za-z0-9-]+$/)
  .transform((name) => name.toLowerCase());
const commonName = /(?:^|\n)CN=([^\n]*)/;

/** Returns the values of a header, one for each line; empty values are omitted. */
function valuesOf({ headers, rawHeaders }: Credentials, name: string): readonly string[] {
  const value = headers[name];
  if (value === undefined) return [];
  const lines = rawHeaders === undefined ? [value].flat() : headerValues(rawHeaders, name);
  return lines.map((line) => line.trim()).filter((line) => line !== '');
}

/** Returns the first value of the first of these headers that has one. */
function firstValueOf(credentials: Credentials, names: readonly string[]): string | undefined {
  for (const name of names) {
    const [value] = valuesOf(credentials, name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** Decodes a percent-encoded key. Returns the key unchanged if its encoding is invalid. */
function unescapeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

const configSchema = z.strictObject({
  /** The accepted common names of proxy certificates, which the front-proxy CA must have issued. */
  allowedNames: z.array(z.string().min(1)).min(1),
  usernameHeaders: z.array(header).min(1).default(['x-remote-user']),
  uidHeaders: z.array(header).default(['x-remote-uid']),
  groupHeaders: z.array(header).default(['x-remote-group']),
  extraHeaderPrefixes: z.array(header).default(['x-remote-extra-']),
});
type RequestHeaderConfig = z.output<typeof configSchema>;

/** Authenticates the user that request headers name, if a front proxy sent the request. Ignores these headers of other clients. */
class RequestHeaderAuthenticator implements Authenticator {
  readonly #config: RequestHeaderConfig;
  readonly #allowedNames: ReadonlySet<string>;

  constructor(config: RequestHeaderConfig) {
    this.#config = config;
    this.#allowedNames = new Set(config.allowedNames);
  }

  authenticate(credentials: Credentials): AuthnResult {
    const { frontProxyCertificate, headers } = credentials;
    const { usernameHeaders, uidHeaders, groupHeaders } = this.#config;
    if (frontProxyCertificate === undefined || !usernameHeaders.some((name) => headers[name] !== undefined)) return abstained;
    if (!this.#allowedNames.has(commonName.exec(frontProxyCertificate.subject)?.[1] ?? '')) return abstained;
    const name = firstValueOf(credentials, usernameHeaders);
    if (name === undefined) return rejected('the proxy names no user');
    const uid = firstValueOf(credentials, uidHeaders);
    const extra = this.#extraOf(credentials);
    return authenticated({
      name,
      groups: [...groupHeaders.flatMap((header) => valuesOf(credentials, header)), 'system:authenticated'],
      ...(uid !== undefined && { uid }),
      ...(extra.size > 0 && { extra: Object.fromEntries(extra) }),
    });
  }

  /** Returns the extra attributes of the user as a map. An object would be unsafe: clients choose the keys, and `__proto__` would set its prototype. */
  #extraOf(credentials: Credentials): ReadonlyMap<string, readonly string[]> {
    const extra = new Map<string, readonly string[]>();
    for (const name in credentials.headers) {
      const prefix = this.#config.extraHeaderPrefixes.find((each) => name.startsWith(each) && name.length > each.length);
      if (prefix === undefined) continue;
      const key = unescapeKey(name.slice(prefix.length));
      extra.set(key, [...(extra.get(key) ?? []), ...valuesOf(credentials, name)]);
    }
    return extra;
  }
}

/** Authenticates requests of an authenticating proxy: the front-proxy CA issued the proxy's client certificate, and request headers name the user. */
export default Authn.plugin({
  id: 'authn-request-header',
  config: configSchema,
  create: ({ config }) => new RequestHeaderAuthenticator(config),
});

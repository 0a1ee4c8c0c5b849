import { abstained, Authn, authenticated, rejected, type Credentials } from '@oarlock/spi/authn';
import { z } from 'zod';

const header = z
  .string()
  .regex(/^[A-Za-z0-9-]+$/)
  .transform((name) => name.toLowerCase());
const commonName = /(?:^|\n)CN=([^\n]*)/;

/** Returns the values of headers in order; repeated headers are joined with commas. */
function valuesOf({ headers }: Credentials, names: readonly string[]): readonly string[] {
  for (const name of names) {
    const value = headers[name];
    const list = typeof value === 'string' ? value.split(',') : (value ?? []);
    const values = list.map((each) => each.trim()).filter((each) => each !== '');
    if (values.length > 0) return values;
  }
  return [];
}

function unescaped(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/** Authenticates requests of an authenticating proxy: the proxy is verified by its client certificate, the user is in request headers. */
export default Authn.plugin({
  id: 'authn-request-header',
  config: z.strictObject({
    /** Common names of the proxies' certificates. Required, because the cluster CA also signs certificates of other clients. */
    allowedNames: z.array(z.string().min(1)).min(1),
    usernameHeaders: z.array(header).min(1).default(['x-remote-user']),
    uidHeaders: z.array(header).default(['x-remote-uid']),
    groupHeaders: z.array(header).default(['x-remote-group']),
    extraHeaderPrefixes: z.array(header).default(['x-remote-extra-']),
  }),
  create({ config }) {
    const proxies = new Set(config.allowedNames);
    const hasUsernameHeader = ({ headers }: Credentials) => config.usernameHeaders.some((name) => headers[name] !== undefined);
    return {
      authenticate(credentials) {
        const { certificate, headers } = credentials;
        if (certificate === undefined || !hasUsernameHeader(credentials)) return abstained;
        const name = commonName.exec(certificate.subject)?.[1] ?? '';
        // headers of other clients are ignored; later authenticators check the certificate
        if (!proxies.has(name)) return abstained;
        const [user] = valuesOf(credentials, config.usernameHeaders);
        if (user === undefined) return rejected('the proxy names no user');
        const [uid] = valuesOf(credentials, config.uidHeaders);
        const extra: Record<string, readonly string[]> = {};
        for (const key in headers) {
          const prefix = config.extraHeaderPrefixes.find((each) => key.startsWith(each) && key.length > each.length);
          if (prefix !== undefined) extra[unescaped(key.slice(prefix.length))] = valuesOf(credentials, [key]);
        }
        return authenticated({
          name: user,
          groups: [...valuesOf(credentials, config.groupHeaders), 'system:authenticated'],
          ...(uid !== undefined && { uid }),
          ...(Object.keys(extra).length > 0 && { extra }),
        });
      },
    };
  },
});

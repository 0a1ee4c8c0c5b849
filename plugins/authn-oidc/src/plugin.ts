import { createHash } from 'node:crypto';
import { abstained, Authn, rejected, type AuthnResult } from '@oarlock/spi/authn';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { errors, jwtVerify } from 'jose';
import { ClaimMapper } from './claims.ts';
import { config } from './config.ts';
import { IssuerKeys } from './issuer-keys.ts';

const form = /^[\w-]+\.[\w-]+\.[\w-]+$/; // JWS compact serialization (RFC 7515)
const algorithms = ['RS256', 'RS384', 'RS512', 'ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512'];
const maxCached = 10_000;
const cacheMs = 10_000;

function issuerOf(token: string): string | undefined {
  try {
    const { iss } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as { iss?: unknown };
    return typeof iss === 'string' ? iss : undefined;
  } catch {
    return undefined; // not a JWT
  }
}

/** Authenticates tokens of OpenID Connect issuers, with Kubernetes' structured authentication configuration (KEP-3331). */
export default Authn.plugin({
  id: 'authn-oidc',
  config,
  create({ config: { jwt, timeoutSeconds } }, { clock }) {
    const clients: JsonClient[] = [];
    const issuers = new Map(
      jwt.map((each) => {
        const { url, discoveryURL, certificateAuthorityFile, certificateAuthority: ca, audiences } = each.issuer;
        const service = new JsonClient({ url, caFile: certificateAuthorityFile, ca });
        clients.push(service);
        const fetch = async (target: string): Promise<unknown> => {
          const { code, body } = await service.get(target, timeoutSeconds * 1000);
          if (code !== 200) throw new Error(`${new URL(target).host} returned status ${code}`);
          return body;
        };
        return [url, { audiences, keys: new IssuerKeys(url, discoveryURL, fetch, clock), mapper: new ClaimMapper(each) }] as const;
      }),
    );
    const cache = new Map<string, { readonly result: AuthnResult; readonly until: number }>();

    return {
      stop: async () => {
        for (const client of clients) client.close();
      },
      async authenticate({ bearerToken }) {
        if (bearerToken === undefined || bearerToken.length > 65_536 || !form.test(bearerToken)) return abstained;
        const url = issuerOf(bearerToken);
        const issuer = url === undefined ? undefined : issuers.get(url);
        if (url === undefined || issuer === undefined) return abstained;
        const hash = createHash('sha256').update(bearerToken).digest('base64');
        const known = cache.get(hash);
        if (known !== undefined && known.until > clock.now()) return known.result;
        try {
          const { payload } = await jwtVerify(bearerToken, issuer.keys.get, {
            issuer: url,
            audience: issuer.audiences,
            algorithms,
            requiredClaims: ['exp'],
            currentDate: new Date(clock.now()),
          });
          const result = issuer.mapper.map(payload);
          if (result.outcome === 'authenticated') {
            cache.delete(hash);
            if (cache.size >= maxCached)
              for (const oldest of cache.keys()) {
                cache.delete(oldest);
                break;
              }
            cache.set(hash, { result, until: Math.min((payload.exp ?? 0) * 1000, clock.now() + cacheMs) });
          }
          return result;
        } catch (error) {
          if (error instanceof errors.JOSEError) return rejected('the token is not valid');
          throw error;
        }
      },
    };
  },
});

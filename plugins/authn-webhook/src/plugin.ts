import { createHash } from 'node:crypto';
import { isObject } from '@oarlock/api/json/json';
import { abstained, Authn, rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';

const maxCached = 10_000;
const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []);

/** Returns the result of a TokenReview. */
function resultOf(review: unknown): AuthnResult {
  const status = isObject(review) && isObject(review['status']) ? review['status'] : {};
  if (status['authenticated'] !== true)
    return typeof status['error'] === 'string' && status['error'] !== '' ? rejected('the webhook does not accept the token') : abstained;
  const user = isObject(status['user']) ? status['user'] : {};
  const { username, uid } = user;
  if (typeof username !== 'string' || username === '') return rejected('the webhook names no user');
  const extra = isObject(user['extra'])
    ? Object.fromEntries(Object.entries(user['extra']).map(([key, values]) => [key, texts(values)]))
    : {};
  const identity: Identity = {
    name: username,
    groups: [...new Set([...texts(user['groups']), 'system:authenticated'])],
    ...(typeof uid === 'string' && uid !== '' && { uid }),
    ...(Object.keys(extra).length > 0 && { extra }),
  };
  const audiences = texts(status['audiences']);
  return { outcome: 'authenticated', identity, ...(audiences.length > 0 && { audiences }) };
}

/** Authenticates bearer tokens by TokenReviews of an external webhook. */
export default Authn.plugin({
  id: 'authn-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** The audiences that the token must be valid for. */
      audiences: z.array(z.string()).default([]),
      timeoutSeconds: z.number().positive().max(60).default(10),
      /** Seconds for which a result is cached. */
      cacheSeconds: z.number().min(0).max(3600).default(120),
      refusedCacheSeconds: z.number().min(0).max(3600).default(10),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create({ config }, { clock }) {
    const service = new JsonClient(config);
    const cache = new Map<string, { readonly result: AuthnResult; readonly until: number }>();
    const asking = new Map<string, Promise<AuthnResult>>();
    const ask = async (token: string, audiences: readonly string[], key: string): Promise<AuthnResult> => {
      const { code, body } = await service.post(
        {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenReview',
          metadata: {},
          spec: { token, ...(audiences.length > 0 && { audiences }) },
        },
        config.timeoutSeconds * 1000,
      );
      if (code < 200 || code > 299) throw new Error(`the authentication webhook returned status ${code}`);
      const result = resultOf(body);
      const seconds = result.outcome === 'authenticated' ? config.cacheSeconds : config.refusedCacheSeconds;
      if (seconds > 0) {
        cache.delete(key);
        if (cache.size >= maxCached)
          for (const oldest of cache.keys()) {
            cache.delete(oldest);
            break;
          }
        cache.set(key, { result, until: clock.now() + seconds * 1000 });
      }
      return result;
    };
    return {
      stop: async () => {
        service.close();
      },
      async authenticate({ bearerToken, audiences }) {
        if (bearerToken === undefined || bearerToken.length > 65_536) return abstained;
        const wanted = audiences !== undefined && audiences.length > 0 ? audiences : config.audiences;
        const key = createHash('sha256').update(bearerToken).update(JSON.stringify(wanted)).digest('base64');
        const known = cache.get(key);
        if (known !== undefined && known.until > clock.now()) return known.result;
        // concurrent requests with the same token share one review
        let answer = asking.get(key);
        if (answer === undefined) {
          answer = ask(bearerToken, wanted, key).finally(() => asking.delete(key));
          asking.set(key, answer);
        }
        return answer;
      },
    };
  },
});

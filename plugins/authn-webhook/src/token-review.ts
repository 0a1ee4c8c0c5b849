import { isObject } from '@oarlock/api/json/json';
import { abstained, rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';

const stringsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string') : [];

export function tokenReviewOf(token: string, audiences: readonly string[]): object {
  return {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenReview',
    metadata: {},
    spec: { token, ...(audiences.length > 0 && { audiences }) },
  };
}

export interface AudienceCheck {
  /** The accepted audiences, of which a token must have at least one. An empty list accepts any audience. */
  readonly required: readonly string[];
  /** The audiences that a token has if the webhook returns none. */
  readonly implicit: readonly string[];
}

/** Returns the authentication result of a TokenReview that a webhook returned. */
export function resultOf(review: unknown, audienceCheck: AudienceCheck): AuthnResult {
  const status = isObject(review) && isObject(review['status']) ? review['status'] : {};
  if (status['authenticated'] !== true)
    return typeof status['error'] === 'string' && status['error'] !== '' ? rejected('the webhook does not accept the token') : abstained;
  const audiences = audiencesOf(stringsIn(status['audiences']), audienceCheck);
  if (audiences === undefined) return abstained;
  const identity = identityOf(isObject(status['user']) ? status['user'] : {});
  if (identity === undefined) return rejected('the webhook names no user');
  return { outcome: 'authenticated', identity, ...(audiences.length > 0 && { audiences }) };
}

/** Returns the required audiences that the token has; undefined if it has none of them. */
function audiencesOf(returned: readonly string[], { required, implicit }: AudienceCheck): readonly string[] | undefined {
  if (required.length === 0) return returned;
  const held = returned.length > 0 ? returned : implicit;
  const common = required.filter((audience) => held.includes(audience));
  return common.length > 0 ? common : undefined;
}

function identityOf(user: Readonly<Record<string, unknown>>): Identity | undefined {
  const { username, uid, groups, extra } = user;
  if (typeof username !== 'string' || username === '') return undefined;
  // `fromEntries` keeps a key such as `__proto__`, which an assignment would lose
  const entries = isObject(extra) ? Object.entries(extra).map(([key, values]) => [key, stringsIn(values)] as const) : [];
  return {
    name: username,
    groups: [...new Set([...stringsIn(groups), 'system:authenticated'])],
    ...(typeof uid === 'string' && uid !== '' && { uid }),
    ...(entries.length > 0 && { extra: Object.fromEntries(entries) }),
  };
}

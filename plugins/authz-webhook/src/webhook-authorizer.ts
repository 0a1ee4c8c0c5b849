import { hash } from 'node:crypto';
import { isObject } from '@oarlock/api/json/json';
import type { Program } from '@oarlock/cel/program';
import type { Value } from '@oarlock/cel/values/value';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import type { Logger } from '@oarlock/primitives/logger';
import { noOpinion, type Attributes, type Authorizer, type Decision, type SubjectRules } from '@oarlock/spi/authz';
import type { JsonClient } from '@oarlock/webhook-client/json-client';

const maxCachedDecisions = 10_000;
/** The CEL cost limit of a match condition. */
const conditionBudget = 1_000_000;

export interface WebhookAuthorizerOptions {
  readonly webhook: JsonClient;
  /** The compiled match conditions. The webhook is called if all of them are true. */
  readonly matchConditions: readonly Program[];
  readonly timeoutMs: number;
  /** How long the decision on an allowed request is cached, in milliseconds. */
  readonly authorizedCacheMs: number;
  /** How long any other decision is cached, in milliseconds. */
  readonly unauthorizedCacheMs: number;
  readonly failurePolicy: 'NoOpinion' | 'Deny';
  readonly clock: Clock;
  readonly log: Logger;
}

type ReviewSpec = Readonly<Record<string, unknown>>;

/** Authorizes requests with SubjectAccessReviews of a webhook, and caches the decisions. */
export class WebhookAuthorizer implements Authorizer {
  readonly #options: WebhookAuthorizerOptions;
  readonly #cache: ExpiringCache<string, Decision>;

  constructor(options: WebhookAuthorizerOptions) {
    this.#options = options;
    this.#cache = new ExpiringCache({ max: maxCachedDecisions, clock: options.clock });
  }

  async stop(): Promise<void> {
    this.#options.webhook.close();
  }

  authorize(attributes: Attributes): Decision | Promise<Decision> {
    const spec = specOf(attributes);
    for (const condition of this.#options.matchConditions) {
      const { value, error } = condition.evaluate({ request: spec as unknown as Value }, conditionBudget);
      if (error !== undefined) return this.#failure('a match condition of the authorization webhook cannot be evaluated');
      if (value !== true) return noOpinion;
    }
    // hashed, because clients choose the length of paths, names and extra values
    const key = hash('sha256', JSON.stringify(spec), 'base64');
    return this.#cache.get(key) ?? this.#review(spec, key);
  }

  rulesFor(): SubjectRules {
    return { resources: [], paths: [], incomplete: 'webhook authorizer does not support user rule resolution' };
  }

  async #review(spec: ReviewSpec, key: string): Promise<Decision> {
    const { webhook, timeoutMs, authorizedCacheMs, unauthorizedCacheMs, clock, log } = this.#options;
    let decision: Decision;
    try {
      const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', metadata: {}, spec };
      const { code, body } = await webhook.post(review, timeoutMs);
      if (code < 200 || code > 299) throw new Error(`the authorization webhook returned status ${code}`);
      decision = decisionOf(body);
    } catch (error) {
      log.warn({ err: error }, 'calling the authorization webhook failed');
      return this.#failure('calling the authorization webhook failed');
    }
    this.#cache.set(key, decision, clock.now() + (decision.decision === 'allow' ? authorizedCacheMs : unauthorizedCacheMs));
    return decision;
  }

  #failure(reason: string): Decision {
    return this.#options.failurePolicy === 'Deny' ? { decision: 'deny', reason } : noOpinion;
  }
}

/** Returns the spec of the SubjectAccessReview for a request. */
function specOf(attributes: Attributes): ReviewSpec {
  const { name: user, uid, groups, extra } = attributes.identity;
  const subject = { user, groups, ...(uid !== undefined && { uid }), ...(extra && { extra }) };
  if (attributes.kind === 'path') return { ...subject, nonResourceAttributes: { path: attributes.path, verb: attributes.verb } };
  const { verb, group, version, resource, subresource, namespace, name } = attributes;
  return { ...subject, resourceAttributes: { verb, group, version, resource, subresource, namespace, name } };
}

function decisionOf(review: unknown): Decision {
  const status = isObject(review) && isObject(review['status']) ? review['status'] : {};
  const reason = typeof status['reason'] === 'string' ? status['reason'] : '';
  if (status['allowed'] === true && status['denied'] !== true) return { decision: 'allow', reason: reason || 'the webhook allows it' };
  if (status['denied'] === true) return { decision: 'deny', reason: reason || 'the webhook denies it' };
  return reason === '' ? noOpinion : { decision: 'no-opinion', reason };
}

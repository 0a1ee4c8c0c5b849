import { Backoff } from '@oarlock/client/backoff';
import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import { Roles } from '@oarlock/spi/role';
import type { Plan } from './plan.ts';

export interface AccountChoice {
  /** As the user of the kubeconfig. */
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** In [0, 1). */
  readonly random: () => number;
}

const everything = { verb: '*', group: '*', resource: '*' };
const tokens = { verb: 'create', resource: 'serviceaccounts', subresource: 'token', namespace: 'kube-system' };

/**
 * Whether each loop of a process without an API server asks with its own service account: as `useServiceAccountCredentials` of the role says. Where
 * nothing is said, those of a user do who may not do everything itself and may make tokens, as Kubernetes' role for its controller manager has it.
 * Asks until the server answers. @throws the reason of the signal when that aborts first
 */
export async function ownAccounts({ plugins }: Plan, choice: AccountChoice): Promise<boolean> {
  const role = plugins.find(({ plugin, name }) => plugin.provides.token === Roles.token && name === 'controllers');
  if (role === undefined) return false;
  const { useServiceAccountCredentials: said } = role.config as { readonly useServiceAccountCredentials?: boolean };
  if (said !== undefined) return said;
  const own = !(await may(everything, choice)) && (await may(tokens, choice));
  choice.log.info({ own }, own ? 'each loop asks with its own service account' : 'the loops ask as the user of the kubeconfig');
  return own;
}

async function may(resourceAttributes: object, { client, clock, log, signal, random }: AccountChoice): Promise<boolean> {
  const backoff = new Backoff({ firstMs: 200, longestMs: 10_000, jitter: 0.5, random });
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } };
  for (;;) {
    try {
      const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
      const { status } = (await client.raw('POST', path, review, { signal })) as { readonly status?: { readonly allowed?: boolean } };
      return status?.allowed === true;
    } catch (error) {
      signal.throwIfAborted();
      // nobody may ask, or nobody can: then a token is not asked for either
      if (isStatus(error, 'Forbidden', 'NotFound', 'MethodNotAllowed')) return false;
      const delayMs = backoff.next();
      log.warn({ err: error, delayMs }, 'the server does not say what its user may do; asking again');
      await clock.sleep(delayMs, signal);
    }
  }
}

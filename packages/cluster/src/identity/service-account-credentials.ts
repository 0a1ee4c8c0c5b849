import { Backoff } from '@oarlock/primitives/backoff';
import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { Roles } from '@oarlock/spi/role';
import type { Plan } from '../composition/plan.ts';

export interface AccessReviewOptions {
  /** Client with the credentials of the kubeconfig's user. */
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** A random number generator: returns a number in [0, 1). */
  readonly random: () => number;
}

const anyAction = { verb: '*', group: '*', resource: '*' };
const createToken = { verb: 'create', resource: 'serviceaccounts', subresource: 'token', namespace: 'kube-system' };

/**
 * Returns true if each controller of a process without an API server uses a token of its own service account. The role's setting
 * `useServiceAccountCredentials` decides. By default, returns true if the user may create such tokens but may not do everything, as the user of
 * kube-controller-manager. Retries until the server answers.
 * @throws the signal's reason if the signal aborts first
 */
export async function shouldUseServiceAccountCredentials({ plugins }: Plan, choice: AccessReviewOptions): Promise<boolean> {
  const role = plugins.find(({ plugin, name }) => plugin.provides.token === Roles.token && name === 'controllers');
  if (role === undefined) return false;
  const { useServiceAccountCredentials: configured } = role.config as { readonly useServiceAccountCredentials?: boolean };
  if (configured !== undefined) return configured;
  const useAccounts = !(await isAllowed(anyAction, choice)) && (await isAllowed(createToken, choice));
  choice.log.info(
    { own: useAccounts },
    useAccounts ? 'each controller uses its own service account' : 'the controllers use the credentials of the kubeconfig',
  );
  return useAccounts;
}

/**
 * Returns true if the client's user may perform an action, with a SelfSubjectAccessReview. Retries until the server answers.
 * @throws the signal's reason if the signal aborts first
 */
export async function isAllowed(resourceAttributes: object, { client, clock, log, signal, random }: AccessReviewOptions): Promise<boolean> {
  const backoff = new Backoff({ firstMs: 200, longestMs: 10_000, jitter: 0.5, random });
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } };
  for (;;) {
    try {
      const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
      const { status } = (await client.raw('POST', path, review, { signal })) as { readonly status?: { readonly allowed?: boolean } };
      return status?.allowed === true;
    } catch (error) {
      signal.throwIfAborted();
      // the review is not permitted or not served: tokens cannot be requested either
      if (isStatus(error, 'Forbidden', 'NotFound', 'MethodNotAllowed')) return false;
      const delayMs = backoff.next();
      log.warn({ err: error, delayMs }, 'the permissions of the user could not be read; retrying');
      await clock.sleep(delayMs, signal);
    }
  }
}

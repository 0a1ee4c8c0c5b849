import {
  configMaps,
  mutatingWebhookConfigurations as mutating,
  validatingWebhookConfigurations as validating,
} from '@oarlock/api/resources';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { CallOptions, Client } from '@oarlock/spi/client';
import { webhookRules } from '../export/webhook-manifests.ts';

export const phases = ['mutate', 'validate'] as const;
export type Phase = (typeof phases)[number];
const kinds: Readonly<Record<Phase, Resource>> = { mutate: mutating, validate: validating };
/** Time in seconds for which a request waits for a process that does not answer. With `failurePolicy: Ignore` the request then continues. */
const timeoutSeconds = 5;
/** Time in milliseconds after which every API server calls a new webhook. */
const propagationMs = 15_000;
const retryMs = 200;
const probeLabel = 'oarlock.dev/dev-probe';
export const probePath = '/probe';

export interface RegisteredPlugin {
  readonly name: string;
  readonly plugin: AdmissionPlugin;
}

export interface WebhookRegistrationOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** Identifies this run: part of the names of all objects. */
  readonly id: string;
  /** URL of the webhook server, without a slash at the end. */
  readonly url: string;
  /** The CA of the webhook server in PEM. */
  readonly ca: string;
  readonly failurePolicy: 'Ignore' | 'Fail';
}

/** Whether the API server reaches the webhook server; undefined if this cannot be found out. */
export type Reachability = { readonly reachable: true } | { readonly reachable: false | undefined; readonly reason: string };

/** Returns the path at which the webhook server calls a plugin. */
export const pathOf = (name: string, phase: Phase): string => `/${encodeURIComponent(name)}/${phase}`;

/** The name of the webhook configurations of a run. */
export const configurationName = (id: string): string => `oarlock-dev-${id}`;
const probeName = (id: string): string => `${configurationName(id)}-probe`;

/** Deletes the webhook configurations of a run, which may have been killed. Ignores those that do not exist. */
export async function removeWebhooks(client: Client, id: string, signal: AbortSignal): Promise<void> {
  const remove = remover(client, { signal });
  await Promise.all([
    remove(mutating, configurationName(id)),
    remove(validating, configurationName(id)),
    remove(validating, probeName(id)),
  ]);
}

const remover =
  (client: Client, options: CallOptions = {}) =>
  async (kind: Resource, name: string): Promise<void> => {
    await client.delete(kind, { name }, options).catch((error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
    });
  };

/** The webhook configurations with which the API server of another process calls the admission plugins of this process. */
export class WebhookRegistration {
  readonly #options: WebhookRegistrationOptions;

  constructor(options: WebhookRegistrationOptions) {
    this.#options = options;
  }

  /** Writes the configurations for the current rules of the plugins. */
  async apply(plugins: readonly RegisteredPlugin[]): Promise<void> {
    for (const phase of phases) {
      const webhooks = plugins.filter(({ plugin }) => plugin[phase] !== undefined).map((each) => this.#webhook(each, phase));
      await this.#write(kinds[phase], configurationName(this.#options.id), webhooks);
    }
  }

  /**
   * Lets the API server call the probe path, for a ConfigMap that is not stored. `wasCalled` returns whether the webhook server has received the
   * call.
   */
  async checkReachable(wasCalled: () => boolean, signal: AbortSignal): Promise<Reachability> {
    const { client, clock, id } = this.#options;
    const webhook = `probe.${id}.oarlock.dev`;
    const labels = { [probeLabel]: id };
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'], scope: 'Namespaced' }];
    const selector = { objectSelector: { matchLabels: labels }, failurePolicy: 'Fail' };
    await this.#write(validating, probeName(id), [{ ...this.#common(webhook, probePath), ...selector, rules }]);
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', generateName: 'oarlock-dev-probe-', labels } };
    const startedAt = clock.monotonic();
    try {
      for (;;) {
        await client.create(configMaps, object, { dryRun: true, signal });
        if (wasCalled()) return { reachable: true };
        if (clock.monotonic() - startedAt > propagationMs)
          return { reachable: false, reason: `it has not called the webhook within ${propagationMs / 1000} s` };
        await clock.sleep(retryMs, signal);
      }
    } catch (error) {
      signal.throwIfAborted();
      const reason = errorText(error);
      return { reachable: reason.includes(`"${webhook}"`) ? false : undefined, reason };
    } finally {
      await remover(client)(validating, probeName(id));
    }
  }

  #webhook({ name, plugin }: RegisteredPlugin, phase: Phase): object {
    return {
      ...this.#common(`${name.toLowerCase()}.${this.#options.id}.oarlock.dev`, pathOf(name, phase)),
      rules: webhookRules(plugin),
      ...(phase === 'mutate' && { reinvocationPolicy: 'IfNeeded' }),
    };
  }

  #common(name: string, path: string) {
    const { url, ca, failurePolicy } = this.#options;
    return {
      name,
      admissionReviewVersions: ['v1'],
      clientConfig: { url: `${url}${path}`, caBundle: Buffer.from(ca).toString('base64') },
      matchPolicy: 'Equivalent',
      failurePolicy,
      timeoutSeconds,
      // the admission slot's contract requires that a dry run writes nothing
      sideEffects: 'NoneOnDryRun',
    };
  }

  async #write(kind: Resource, name: string, webhooks: readonly object[]): Promise<void> {
    const { client } = this.#options;
    if (webhooks.length === 0) return remover(client)(kind, name);
    const metadata = { name, labels: { 'app.kubernetes.io/managed-by': 'oarlock-dev' } };
    const object = { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata, webhooks };
    await client.patch(kind, { name }, 'apply', object, { fieldManager: 'oarlock-dev', force: true });
  }
}

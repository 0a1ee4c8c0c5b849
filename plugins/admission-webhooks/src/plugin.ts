import type { KubeObject } from '@oarlock/api/object';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '@oarlock/api/resources';
import {
  Admission,
  allow,
  isAdmissionDecision,
  type AdmissionPlugin,
  type AdmissionRequest,
  type AdmissionDecision,
} from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { configurationGroup, expressionRejection } from '@oarlock/admission-rules/policy-configuration';
import { ReinvocationContext } from '@oarlock/admission-rules/reinvocation-context';
import { allStored, storedIn } from '@oarlock/admission-rules/admission-environment';
import { ConfigurationSource } from '@oarlock/admission-rules/configuration-source';
import { ExcludedAddresses } from '@oarlock/primitives/net/excluded-addresses';
import { z } from 'zod';
import { shouldCallHook, dispatchWebhook, type DispatchOptions } from './webhook-dispatcher.ts';
import { WebhookClient } from './webhook-client.ts';
import { WebhookMetrics } from './webhook-metrics.ts';
import { matchConditionErrors, compileWebhooks, type CompiledWebhook, type WebhookConfiguration } from './webhook.ts';

type Webhooks = readonly CompiledWebhook[];
type Source = () => Webhooks | Promise<Webhooks>;

const flat =
  <T extends KubeObject>(of: ConfigurationSource<T, Webhooks>): Source =>
  () => {
    const all = of.all();
    return all instanceof Promise ? all.then((lists) => lists.flat()) : all.flat();
  };

/** Calls mutating webhooks in order and validating webhooks in parallel (MutatingAdmissionWebhook, ValidatingAdmissionWebhook). */
export default Admission.plugin({
  id: 'admission-webhooks',
  declares: { neverProxied: true },
  config: z.strictObject({
    /** Addresses at which no webhook of a Service is called. Default: `neverProxied` of the API server's settings. */
    neverProxied: z.array(z.union([z.ipv4(), z.ipv6()])).default([]),
  }),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz, config }, { clock, log, metrics }) {
    const excluded = new ExcludedAddresses(config.neverProxied);
    const caller = new WebhookClient(client, { clock, random: Math.random, excluded });
    const options: DispatchOptions = {
      caller,
      namespaces: new NamespaceObjects(informers, client),
      authz,
      log,
      clock,
      metrics: new WebhookMetrics(metrics),
    };
    const mutating = new ConfigurationSource(client, informers, { resource: mutatingWebhookConfigurations, make: compileWebhooks });
    const validating = new ConfigurationSource(client, informers, { resource: validatingWebhookConfigurations, make: compileWebhooks });
    return new WebhookAdmission(flat(mutating), { validating: flat(validating), none: () => mutating.empty && validating.empty, options });
  },
});

/** The webhooks that the plugin dispatches to. */
export interface WebhookAdmissionOptions {
  readonly validating: Source;
  readonly none: () => boolean;
  readonly options: DispatchOptions;
}

class WebhookAdmission implements AdmissionPlugin {
  readonly matches = [{ resources: ['*'], operations: ['*' as const] }];
  readonly #mutating: Source;
  readonly #validating: Source;
  readonly #none: () => boolean;
  readonly #options: DispatchOptions;

  constructor(mutating: Source, { validating, none, options }: WebhookAdmissionOptions) {
    this.#mutating = mutating;
    this.#validating = validating;
    this.#none = none;
    this.#options = options;
  }

  isIdle(_operation: string, { group }: AdmissionRequest['resource']): boolean {
    return this.#none() && group !== configurationGroup;
  }

  async stop(): Promise<void> {
    this.#options.caller.close();
  }

  mutate(request: AdmissionRequest): KubeObject | Promise<KubeObject | AdmissionDecision> {
    const object = request.object as KubeObject;
    const all = this.#mutating();
    if (all instanceof Promise) return all.then((webhooks) => this.#mutate(request, object, webhooks));
    return all.some((webhook) => shouldCallHook(webhook, request)) ? this.#mutate(request, object, all) : object;
  }

  async #mutate(request: AdmissionRequest, submitted: KubeObject, all: Webhooks): Promise<KubeObject | AdmissionDecision> {
    let object = submitted;
    const { mutation: round } = request;
    const state = ReinvocationContext.of(round, this);
    if (round?.isReinvocation === true) state.begin(object);
    const webhooks = all.filter((webhook) => shouldCallHook(webhook, request));
    const onEnd = (ms: number) => request.addLatency?.('mutating-webhook', ms);
    for (const [index, webhook] of webhooks.entries()) {
      if (round?.isReinvocation === true && !state.isDue(webhook.id)) continue;
      const turn = await dispatchWebhook(webhook, { request, object, mutating: true, onEnd }, this.#options);
      if (turn.outcome === 'skipped') continue;
      const place = `round_${round?.isReinvocation === true ? 1 : 0}_index_${index}`;
      if (turn.outcome === 'rejected') return turn.verdict;
      if (turn.outcome === 'ignored') {
        request.annotate(`failed-open.mutating.webhook.admission.k8s.io/${place}`, webhook.name);
        continue;
      }
      const { changed } = turn;
      request.annotate(
        `mutation.webhook.admission.k8s.io/${place}`,
        JSON.stringify({ configuration: webhook.configuration, webhook: webhook.name, mutated: changed }),
      );
      if (changed) {
        request.annotate(
          `patch.webhook.admission.k8s.io/${place}`,
          JSON.stringify({ configuration: webhook.configuration, webhook: webhook.name, patch: turn.patch, patchType: 'JSONPatch' }),
          'Request',
        );
        object = turn.object as KubeObject;
        state.changed();
        round?.reinvoke();
      }
      if (webhook.reinvokes) state.called(webhook.id);
    }
    state.end(object);
    return object;
  }

  validate(request: AdmissionRequest): AdmissionDecision | Promise<AdmissionDecision> {
    const fault = configurationFault(request);
    if (fault !== undefined) return fault;
    if (request.operation === 'DELETE' || request.operation === 'CONNECT') return this.#removal(request);
    const all = this.#validating();
    if (all instanceof Promise) return all.then((webhooks) => this.#validate(request, webhooks));
    return all.some((webhook) => shouldCallHook(webhook, request)) ? this.#validate(request, all) : allow;
  }

  /** Admits a delete request. Mutating webhooks are called before validating webhooks: a delete has no object to mutate, but they can deny it. */
  async #removal(request: AdmissionRequest): Promise<AdmissionDecision> {
    const answer: KubeObject | AdmissionDecision | undefined = await this.#mutate(
      request,
      request.object as KubeObject,
      await this.#mutating(),
    );
    if (answer !== undefined && isAdmissionDecision(answer)) return answer;
    return this.#validate(request, await this.#validating());
  }

  async #validate(request: AdmissionRequest, all: Webhooks): Promise<AdmissionDecision> {
    const webhooks = all.filter((webhook) => shouldCallHook(webhook, request));
    // they are called at the same time: the request waits for the slowest
    let slowestMs = 0;
    const onEnd = (ms: number) => {
      slowestMs = Math.max(slowestMs, ms);
    };
    const turns = await Promise.all(
      webhooks.map((webhook) => dispatchWebhook(webhook, { request, object: request.object, mutating: false, onEnd }, this.#options)),
    );
    request.addLatency?.('validating-webhook', slowestMs);
    let denialDecision: AdmissionDecision | undefined;
    for (const [index, turn] of turns.entries()) {
      if (turn.outcome === 'rejected') denialDecision ??= turn.verdict;
      else if (turn.outcome === 'ignored')
        request.annotate(`failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`, webhooks[index]?.name ?? '');
    }
    return denialDecision ?? allow;
  }
}

/** Rejects new match conditions that do not compile. Existing match conditions are accepted. */
function configurationFault({ resource, subresource, object, old }: AdmissionRequest): AdmissionDecision | undefined {
  if (
    resource.group !== configurationGroup ||
    !resource.resource.endsWith('webhookconfigurations') ||
    subresource !== '' ||
    object === undefined
  )
    return undefined;
  return expressionRejection(
    matchConditionErrors(object as WebhookConfiguration, storedIn(old)),
    old === undefined ? [] : matchConditionErrors(old as WebhookConfiguration, allStored),
  );
}

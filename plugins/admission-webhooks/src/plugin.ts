import type { KubeObject } from '@oarlock/api/object';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '@oarlock/api/resources';
import { Admission, allow, isVerdict, type AdmissionPlugin, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { configurationGroup, expressionRefusal } from '@oarlock/admission-rules/policy-configuration';
import { Reinvocation } from '@oarlock/admission-rules/reinvocation';
import { RuleObjects } from '@oarlock/admission-rules/rule-objects';
import { z } from 'zod';
import { concerns, takeTurn, type TurnOptions } from './webhook-turn.ts';
import { WebhookCaller } from './webhook-call.ts';
import { WebhookMetrics } from './webhook-metrics.ts';
import { conditionFaults, readyWebhooks, type ReadyWebhook, type WebhookConfiguration } from './webhook.ts';

type Webhooks = readonly ReadyWebhook[];
type Source = () => Webhooks | Promise<Webhooks>;

const flat =
  <T extends KubeObject>(of: RuleObjects<T, Webhooks>): Source =>
  () => {
    const all = of.all();
    return all instanceof Promise ? all.then((lists) => lists.flat()) : all.flat();
  };

/** Asks the webhooks of MutatingWebhookConfigurations, one after the other, and those of ValidatingWebhookConfigurations, all at once. */
export default Admission.plugin({
  id: 'admission-webhooks',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz }, { clock, log, metrics }) {
    const caller = new WebhookCaller(client, clock, Math.random);
    const options: TurnOptions = {
      caller,
      namespaces: new NamespaceObjects(informers, client),
      authz,
      log,
      clock,
      metrics: new WebhookMetrics(metrics),
    };
    const mutating = new RuleObjects(client, informers, mutatingWebhookConfigurations, readyWebhooks);
    const validating = new RuleObjects(client, informers, validatingWebhookConfigurations, readyWebhooks);
    return new WebhookAdmission(flat(mutating), flat(validating), () => mutating.empty && validating.empty, options);
  },
});

class WebhookAdmission implements AdmissionPlugin {
  readonly matches = [{ resources: ['*'], operations: ['*' as const] }];
  readonly #mutating: Source;
  readonly #validating: Source;
  readonly #none: () => boolean;
  readonly #options: TurnOptions;

  constructor(mutating: Source, validating: Source, none: () => boolean, options: TurnOptions) {
    this.#mutating = mutating;
    this.#validating = validating;
    this.#none = none;
    this.#options = options;
  }

  idle(_operation: string, { group }: AdmissionRequest['resource']): boolean {
    return this.#none() && group !== configurationGroup;
  }

  async stop(): Promise<void> {
    this.#options.caller.close();
  }

  mutate(request: AdmissionRequest): KubeObject | Promise<KubeObject | Verdict> {
    const object = request.object as KubeObject;
    const all = this.#mutating();
    if (all instanceof Promise) return all.then((settled) => this.#mutate(request, object, settled));
    return all.some((webhook) => concerns(webhook, request)) ? this.#mutate(request, object, all) : object;
  }

  async #mutate(request: AdmissionRequest, given: KubeObject, all: Webhooks): Promise<KubeObject | Verdict> {
    let object = given;
    const { round } = request;
    const state = Reinvocation.of(round, this);
    if (round?.again === true) state.begin(object);
    const webhooks = all.filter((webhook) => concerns(webhook, request));
    for (const [index, webhook] of webhooks.entries()) {
      if (round?.again === true && !state.isDue(webhook.id)) continue;
      const turn = await takeTurn(webhook, request, object, true, this.#options);
      if (turn.outcome === 'skipped') continue;
      const place = `round_${round?.again === true ? 1 : 0}_index_${index}`;
      if (turn.outcome === 'refused') return turn.verdict;
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

  validate(request: AdmissionRequest): Verdict | Promise<Verdict> {
    const fault = configurationFault(request);
    if (fault !== undefined) return fault;
    if (request.operation === 'DELETE' || request.operation === 'CONNECT') return this.#removal(request);
    const all = this.#validating();
    if (all instanceof Promise) return all.then((settled) => this.#validate(request, settled));
    return all.some((webhook) => concerns(webhook, request)) ? this.#validate(request, all) : allow;
  }

  /** There is nothing to change, but mutating webhooks may say no, too, and are asked first. */
  async #removal(request: AdmissionRequest): Promise<Verdict> {
    const answer: KubeObject | Verdict | undefined = await this.#mutate(request, request.object as KubeObject, await this.#mutating());
    if (answer !== undefined && isVerdict(answer)) return answer;
    return this.#validate(request, await this.#validating());
  }

  async #validate(request: AdmissionRequest, all: Webhooks): Promise<Verdict> {
    const webhooks = all.filter((webhook) => concerns(webhook, request));
    const turns = await Promise.all(webhooks.map((webhook) => takeTurn(webhook, request, request.object, false, this.#options)));
    let refusal: Verdict | undefined;
    for (const [index, turn] of turns.entries()) {
      if (turn.outcome === 'refused') refusal ??= turn.verdict;
      else if (turn.outcome === 'ignored')
        request.annotate(`failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`, webhooks[index]?.name ?? '');
    }
    return refusal ?? allow;
  }
}

/** Match conditions that do not compile are not taken; those that were there before may stay. */
function configurationFault({ resource, subresource, object, old }: AdmissionRequest): Verdict | undefined {
  if (
    resource.group !== configurationGroup ||
    !resource.resource.endsWith('webhookconfigurations') ||
    subresource !== '' ||
    object === undefined
  )
    return undefined;
  return expressionRefusal(
    conditionFaults(object as WebhookConfiguration),
    old === undefined ? [] : conditionFaults(old as WebhookConfiguration),
  );
}

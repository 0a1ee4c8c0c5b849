import type { KubeObject } from '@oarlock/api/object';
import type { MutatingWebhook, ValidatingWebhook, WebhookClientConfig } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment } from '@oarlock/admission-rules/environment';
import type { ExpressionFault } from '@oarlock/admission-rules/policy-configuration';
import { MatchConditions } from '@oarlock/admission-rules/match-conditions';
import { Matcher } from '@oarlock/admission-rules/matcher';
import { compile } from '@oarlock/cel/program';
import { bool } from '@oarlock/cel/type';

/** One webhook of a configuration, made ready. */
export interface ReadyWebhook {
  /** Of all webhooks: the configuration, the name, and which of that name. */
  readonly id: string;
  readonly name: string;
  readonly configuration: string;
  readonly matcher: Matcher;
  readonly conditions: MatchConditions;
  readonly ignoresFaults: boolean;
  readonly timeoutMs: number;
  readonly client: WebhookClientConfig;
  readonly takesDryRun: boolean;
  readonly reinvokes: boolean;
  /** The newest that both sides know. */
  readonly version: 'v1' | 'v1beta1' | undefined;
}

export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly (MutatingWebhook | ValidatingWebhook)[];
}

const defaultTimeout = 10;
const environment = () => admissionEnvironment({ namespace: false });

export function readyWebhooks({ metadata, webhooks = [] }: WebhookConfiguration): readonly ReadyWebhook[] {
  const configuration = metadata?.name ?? '';
  const counts = new Map<string, number>();
  return webhooks.map((webhook): ReadyWebhook => {
    const { name, rules = [], matchPolicy, namespaceSelector, objectSelector, clientConfig, sideEffects } = webhook;
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    const reinvocation = 'reinvocationPolicy' in webhook ? webhook.reinvocationPolicy : undefined;
    return {
      id: `${configuration}/${name}/${count}`,
      name,
      configuration,
      matcher: new Matcher({ rules, matchPolicy, namespaceSelector, objectSelector }),
      conditions: new MatchConditions(webhook.matchConditions, environment),
      ignoresFaults: webhook.failurePolicy === 'Ignore',
      timeoutMs: (webhook.timeoutSeconds ?? defaultTimeout) * 1000,
      client: clientConfig,
      takesDryRun: sideEffects === 'None' || sideEffects === 'NoneOnDryRun',
      reinvokes: reinvocation === 'IfNeeded',
      version: (['v1', 'v1beta1'] as const).find((version) => webhook.admissionReviewVersions.includes(version)),
    };
  });
}

/** Match conditions that do not compile. */
export function conditionFaults({ webhooks = [] }: WebhookConfiguration): readonly ExpressionFault[] {
  return webhooks.flatMap(({ matchConditions = [] }, i) =>
    matchConditions.flatMap(({ expression }, j): ExpressionFault[] => {
      const { message } = compile(expression, environment(), { expect: [bool] });
      return message === undefined ? [] : [{ field: `webhooks[${i}].matchConditions[${j}].expression`, expression, message }];
    }),
  );
}

import type { KubeObject } from '@oarlock/api/object';
import type { MutatingWebhook, ValidatingWebhook, WebhookClientConfig } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment, type IsStored } from '@oarlock/admission-rules/admission-environment';
import type { ExpressionError } from '@oarlock/admission-rules/policy-configuration';
import { MatchConditions } from '@oarlock/admission-rules/match-conditions';
import { Matcher } from '@oarlock/admission-rules/matcher';
import { compile } from '@oarlock/cel/program';
import { bool } from '@oarlock/cel/types/type';

/** A webhook of a configuration with compiled match conditions. */
export interface CompiledWebhook {
  /** The unique id: the name of the configuration, the name of the webhook, and the index among webhooks of the same name. */
  readonly id: string;
  readonly name: string;
  readonly configuration: string;
  readonly matcher: Matcher;
  readonly conditions: MatchConditions;
  readonly ignoresFailures: boolean;
  readonly timeoutMs: number;
  readonly client: WebhookClientConfig;
  readonly takesDryRun: boolean;
  readonly reinvokes: boolean;
  /** The newest AdmissionReview version that the webhook and this server support; undefined if there is none. */
  readonly version: 'v1' | 'v1beta1' | undefined;
}

export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly (MutatingWebhook | ValidatingWebhook)[];
}

const defaultTimeout = 10;
const environment = (stored: boolean) => admissionEnvironment({ namespace: false, stored });

export function compileWebhooks({ metadata, webhooks = [] }: WebhookConfiguration): readonly CompiledWebhook[] {
  const configuration = metadata?.name ?? '';
  const counts = new Map<string, number>();
  return webhooks.map((webhook): CompiledWebhook => {
    const { name, rules = [], matchPolicy, namespaceSelector, objectSelector, clientConfig, sideEffects } = webhook;
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    const reinvocation = 'reinvocationPolicy' in webhook ? webhook.reinvocationPolicy : undefined;
    return {
      id: `${configuration}/${name}/${count}`,
      name,
      configuration,
      matcher: new Matcher({ rules, matchPolicy, namespaceSelector, objectSelector }),
      conditions: new MatchConditions(webhook.matchConditions, () => environment(true)),
      ignoresFailures: webhook.failurePolicy === 'Ignore',
      timeoutMs: (webhook.timeoutSeconds ?? defaultTimeout) * 1000,
      client: clientConfig,
      takesDryRun: sideEffects === 'None' || sideEffects === 'NoneOnDryRun',
      reinvokes: reinvocation === 'IfNeeded',
      version: (['v1', 'v1beta1'] as const).find((version) => webhook.admissionReviewVersions.includes(version)),
    };
  });
}

/** Returns the errors of match conditions that do not compile. */
export function matchConditionErrors({ webhooks = [] }: WebhookConfiguration, isStored: IsStored): readonly ExpressionError[] {
  return webhooks.flatMap(({ matchConditions = [] }, i) =>
    matchConditions.flatMap(({ expression }, j): ExpressionError[] => {
      const { message } = compile(expression, environment(isStored(expression)), { expect: [bool] });
      return message === undefined ? [] : [{ field: `webhooks[${i}].matchConditions[${j}].expression`, expression, message }];
    }),
  );
}

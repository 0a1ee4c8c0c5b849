import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { pluginNameOf } from '@oarlock/kernel/plugin';
import { errorText } from '@oarlock/primitives/error-text';
import {
  allow,
  isAdmissionDecision,
  matchesRules,
  type AdmissionDecision,
  type AdmissionPlugin,
  type AdmissionRequest,
  type Operation,
} from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';

export interface ExplainedRequest {
  readonly identity: Identity;
  readonly operation: Operation;
  readonly resource: Resource;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject | undefined;
  readonly old: KubeObject | undefined;
}

export interface AdmissionStep {
  readonly plugin: string;
  readonly decision: 'allow' | 'deny';
  readonly because?: string;
}

/** Runs the admission plugins on a request as a dry run, and returns the plugin that denies it, or one step if all admit it. */
export async function explainAdmission(plugins: readonly AdmissionPlugin[], explained: ExplainedRequest): Promise<AdmissionStep> {
  const matching = plugins.filter(({ matches }) => matchesRules(matches, explained));
  const base = { ...explained, options: {}, dryRun: true, warn: () => {}, annotate: () => {} };
  let { object } = explained;
  const pluginState = new Map<object, unknown>();
  const requestOf = (mutating: boolean): AdmissionRequest => ({
    ...base,
    object: object && deepFreeze(object),
    ...(mutating && { mutation: { isReinvocation: false, reinvoke: () => {}, pluginState } }),
  });
  for (const phase of ['mutate', 'validate'] as const)
    for (const plugin of matching) {
      if (phase === 'mutate' && object === undefined) continue;
      try {
        const result = (await plugin[phase]?.(requestOf(phase === 'mutate'))) ?? allow;
        if (!isAdmissionDecision(result)) object = result;
        else if (!result.allowed) return { plugin: pluginNameOf(plugin), decision: 'deny', because: messageOf(result) };
      } catch (error) {
        return { plugin: pluginNameOf(plugin), decision: 'deny', because: errorText(error) };
      }
    }
  return { plugin: 'admission', decision: 'allow', because: `${matching.length} plugins admit the request` };
}

const messageOf = (decision: AdmissionDecision & { readonly allowed: false }): string => decision.status?.message ?? decision.message;

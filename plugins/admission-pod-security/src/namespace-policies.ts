import { type levels, latest, parseLevel, parseVersion, type LevelVersion } from './policy.ts';

export const prefix = 'pod-security.kubernetes.io/';
export const modes = ['enforce', 'audit', 'warn'] as const;
export type Mode = (typeof modes)[number];
export type Policies = Readonly<Record<Mode, LevelVersion>>;
/** The level and version of each mode for namespaces without policy labels. */
export type PolicyDefaults = Readonly<Record<Mode, (typeof levels)[number]>> & Readonly<Record<`${Mode}-version`, string>>;

const noLabels: Readonly<Record<string, string>> = Object.freeze({});

/** Parses and caches the policies that the labels of namespaces select. */
export class NamespacePolicies {
  readonly #defaults: PolicyDefaults;
  /** The policies, keyed by the labels object of a namespace. That object is replaced whenever the namespace changes. */
  readonly #cache = new WeakMap<Readonly<Record<string, string>>, Policies>();

  constructor(defaults: PolicyDefaults) {
    this.#defaults = defaults;
  }

  of(labels: Readonly<Record<string, string>> = noLabels): Policies {
    let policies = this.#cache.get(labels);
    if (policies === undefined) {
      policies = {
        enforce: this.#policyOf(labels, 'enforce'),
        audit: this.#policyOf(labels, 'audit'),
        warn: this.#policyOf(labels, 'warn'),
      };
      if (Object.isFrozen(labels)) this.#cache.set(labels, policies);
    }
    return policies;
  }

  #policyOf(labels: Readonly<Record<string, string>>, mode: Mode): LevelVersion {
    const text = labels[`${prefix}${mode}`];
    const release = labels[`${prefix}${mode}-version`];
    const parsed = text === undefined ? this.#defaults[mode] : parseLevel(text);
    // an invalid level or version selects the strictest policy
    const { minor } = parseVersion(release ?? (text === undefined ? this.#defaults[`${mode}-version`] : 'latest')) ?? {
      minor: undefined,
    };
    return { level: parsed ?? 'restricted', minor: minor !== undefined && minor > latest ? undefined : minor };
  }
}

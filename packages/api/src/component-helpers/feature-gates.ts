import { featureList } from './internal/feature-list.ts';
import { dependentGates, switchableGates } from './internal/switchable-gates.ts';

/** The version of Kubernetes that Oarlock implements, and the versions that it can emulate, oldest first. */
export const currentVersion = '1.36';
export const emulatedVersions = ['1.33', '1.34', '1.35', currentVersion] as const;
export type EmulatedVersion = (typeof emulatedVersions)[number];

/** A feature gate that Oarlock can switch. */
export type SwitchableGate = keyof typeof switchableGates;

/** A feature gate at a version of Kubernetes. */
export interface FeatureGate {
  readonly name: string;
  readonly stage: 'ALPHA' | 'BETA' | 'GA' | 'DEPRECATED';
  /** The version in which the stage began. */
  readonly since: string;
  readonly default: boolean;
  /** True if the value cannot be changed. */
  readonly locked: boolean;
}

/** The settings of a cluster: values by the names of gates, and the version that the cluster emulates. */
export interface FeatureSettings {
  readonly featureGates?: Readonly<Record<string, boolean>> | undefined;
  readonly emulationVersion?: string | undefined;
}

/** A value of a feature gate that the cluster cannot have. */
export interface FeatureFault {
  readonly gate: string;
  readonly message: string;
}

const stages: Readonly<Record<string, FeatureGate['stage']>> = { a: 'ALPHA', b: 'BETA', g: 'GA', d: 'DEPRECATED' };

type Histories = ReadonlyMap<string, readonly FeatureGate[]>;
let parsed: Histories | undefined;

/** Returns the stages of each gate, oldest first. */
function histories(): Histories {
  parsed ??= new Map(
    featureList
      .trim()
      .split('\n')
      .map((line) => {
        const [name = '', ...entries] = line.split(' ');
        return [name, entries.map((entry) => parseStage(name, entry))];
      }),
  );
  return parsed;
}

function parseStage(name: string, entry: string): FeatureGate {
  const [, letter = '', since = '', on, locked] = /^([abgd])(\d+\.\d+)(\+?)(!?)$/.exec(entry) ?? [];
  const stage = stages[letter];
  if (stage === undefined) throw new Error(`the feature gate ${name} has an invalid stage ${JSON.stringify(entry)}`);
  return { name, stage, since, default: on === '+', locked: locked === '!' };
}

/** Returns the minor number of a version such as `1.36`. */
const minorOf = (version: string): number => Number(version.split('.')[1]);

/** Returns a gate as it was at a version; undefined if the gate did not exist. */
const gateAt = (history: readonly FeatureGate[], version: string): FeatureGate | undefined =>
  history.findLast(({ since }) => minorOf(since) <= minorOf(version));

/** Returns the feature gates that exist at a version, in the order of their names. */
export const featureGatesAt = (version: string = currentVersion): readonly FeatureGate[] =>
  [...histories().values()].flatMap((history) => gateAt(history, version) ?? []);

export const isSwitchable = (name: string): name is SwitchableGate => Object.hasOwn(switchableGates, name);

/** Returns what a gate switches, for the documentation. */
export const effectOf = (name: SwitchableGate): string => switchableGates[name];

/** The values of the feature gates of one cluster. */
export class FeatureGates {
  readonly #settings: Readonly<Record<string, boolean>>;
  /** Values that were read: each write of a pod reads several. */
  readonly #values = new Map<SwitchableGate, boolean>();
  readonly version: string;

  /** The settings must have no faults. */
  constructor({ featureGates = {}, emulationVersion = currentVersion }: FeatureSettings = {}) {
    this.#settings = featureGates;
    this.version = emulationVersion;
  }

  enabled(name: SwitchableGate): boolean {
    let value = this.#values.get(name);
    if (value === undefined) this.#values.set(name, (value = this.#valueOf(name)));
    return value;
  }

  /** Returns the gates of the emulated version with their values. Fixed gates have the values of the current version. */
  all(): readonly (FeatureGate & { readonly enabled: boolean })[] {
    return featureGatesAt(this.version).map((gate) => ({ ...gate, enabled: this.#valueOf(gate.name) }));
  }

  /** Returns the names of the gates whose default at the emulated version Oarlock does not follow, because they are fixed. */
  unfollowed(): readonly string[] {
    return this.all().flatMap((gate) => (gate.enabled !== gate.default && !isSwitchable(gate.name) ? [gate.name] : []));
  }

  #valueOf(name: string): boolean {
    const history = histories().get(name) ?? [];
    if (!isSwitchable(name)) {
      const parent = dependentGates[name];
      return (gateAt(history, currentVersion)?.default ?? false) && (parent === undefined || this.#valueOf(parent));
    }
    return (Object.hasOwn(this.#settings, name) ? this.#settings[name] : gateAt(history, this.version)?.default) ?? false;
  }
}

/** Returns the settings that a cluster cannot have, in upstream's words where upstream has them. */
export function featureFaults({ featureGates = {}, emulationVersion = currentVersion }: FeatureSettings): readonly FeatureFault[] {
  return Object.entries(featureGates).flatMap(([gate, value]) => {
    const message = faultOf(gate, value, { featureGates, emulationVersion });
    return message === undefined ? [] : [{ gate, message }];
  });
}

function faultOf(name: string, value: boolean, settings: FeatureSettings): string | undefined {
  const { version } = new FeatureGates(settings);
  if (name === 'AllAlpha' || name === 'AllBeta')
    return value || name === 'AllBeta'
      ? `cannot set feature gate ${name} to ${value}: Oarlock does not implement both values of all gates of the stage`
      : undefined;
  const history = histories().get(name);
  if (history === undefined) return `unrecognized feature gate: ${name}`;
  const gate = gateAt(history, version);
  if (gate === undefined) return `cannot set feature gate ${name} to ${value}, feature is PreAlpha at emulated version ${version}`;
  if (gate.locked && value !== gate.default) return `cannot set feature gate ${name} to ${value}, feature is locked to ${gate.default}`;
  const fixed = gateAt(history, currentVersion)?.default ?? false;
  const parent = dependentGates[name];
  if (parent !== undefined && !value && !new FeatureGates(settings).enabled(parent)) return undefined;
  if (!isSwitchable(name) && value !== fixed)
    return `cannot set feature gate ${name} to ${value}: Oarlock implements the feature only with the value ${fixed}, its default in Kubernetes ${currentVersion}`;
  return undefined;
}

/** Returns a warning for each setting of a gate that a later version removes, in upstream's words, and for an emulated version that is not followed. */
export function featureWarnings(settings: FeatureSettings): readonly string[] {
  const { featureGates = {}, emulationVersion = currentVersion } = settings;
  const removed = Object.entries(featureGates).flatMap(([name, value]) => {
    const stage = gateAt(histories().get(name) ?? [], emulationVersion)?.stage;
    if (stage !== 'GA' && stage !== 'DEPRECATED') return [];
    return [`Setting ${stage === 'GA' ? 'GA' : 'deprecated'} feature gate ${name}=${value}. It will be removed in a future release.`];
  });
  const unfollowed = new FeatureGates(settings).unfollowed();
  if (unfollowed.length === 0) return removed;
  const notice = `emulationVersion ${emulationVersion}: Oarlock does not switch ${unfollowed.length} feature gates, which keep their defaults of ${currentVersion}: ${unfollowed.join(', ')}`;
  return [...removed, notice];
}

/**
 * Parses `A=true,B=false`, the form of upstream's `--feature-gates`.
 * @throws Error with upstream's words if a part has no boolean value
 */
export function parseFeatureGates(text: string): Readonly<Record<string, boolean>> {
  const gates: Record<string, boolean> = {};
  for (const part of text.split(',').map((each) => each.trim())) {
    if (part === '') continue;
    const [name = '', value] = part.split(/=(.*)/s).map((each) => each.trim());
    if (value === undefined) throw new Error(`missing bool value for ${name}`);
    const parsedValue = booleans[value];
    if (parsedValue === undefined)
      throw new Error(`invalid value of ${name}=${value}, err: strconv.ParseBool: parsing ${JSON.stringify(value)}: invalid syntax`);
    gates[name] = parsedValue;
  }
  return gates;
}

/** The texts that Go's `strconv.ParseBool` accepts. */
const booleans: Readonly<Record<string, boolean | undefined>> = {
  ...Object.fromEntries(['1', 't', 'T', 'true', 'TRUE', 'True'].map((text) => [text, true])),
  ...Object.fromEntries(['0', 'f', 'F', 'false', 'FALSE', 'False'].map((text) => [text, false])),
};

import { unmatchedRules } from '@oarlock/cluster/composition/match-warnings';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { errorText } from '@oarlock/primitives/error-text';
import { Admission, type AdmissionPlugin } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import type { PrintOptions } from './observe-planned.ts';

/** An admission plugin as its author wrote it, with its rules and phases. */
export interface AdmissionVersion {
  readonly name: string;
  readonly plugin: AdmissionPlugin;
}

/** The running versions of admission plugins under development. Consumers hold fronts of them, which match every request. */
export class AdmissionVersions {
  readonly #created = new Map<string, AdmissionPlugin>();
  readonly #running = new Map<string, AdmissionPlugin>();

  /** Records the instances of a plugin, if it is an admission plugin. */
  record(planned: PlannedPlugin): PlannedPlugin {
    if (planned.plugin.provides.token !== Admission.token) return planned;
    const { name, decorate } = planned;
    return {
      ...planned,
      decorate: (instance, context, health) => {
        this.#created.set(name, instance as AdmissionPlugin);
        return decorate?.(instance, context, health) ?? instance;
      },
    };
  }

  get running(): readonly AdmissionVersion[] {
    return [...this.#running].map(([name, plugin]) => ({ name, plugin }));
  }

  /** Notes that the latest instances run: those of one plugin after its reload, or all. Returns them. */
  adopt(only?: string): readonly AdmissionVersion[] {
    const adopted = [...this.#created].filter(([name]) => only === undefined || name === only);
    for (const [name, plugin] of adopted) this.#running.set(name, plugin);
    return adopted.map(([name, plugin]) => ({ name, plugin }));
  }
}

/** Prints a warning for each resource and operation in the rules of the versions that no request to the API server has. Never rejects. */
export async function printMatchWarnings(
  client: Client,
  versions: readonly AdmissionVersion[],
  { paint, print }: PrintOptions,
): Promise<void> {
  const rules = versions.map(({ name, plugin }) => ({ name, matches: plugin.matches }));
  const warnings = await unmatchedRules(client, rules).catch((error: unknown) => [
    `the rules of admission plugins were not checked: ${errorText(error)}`,
  ]);
  for (const warning of warnings) print(paint.yellow(`Warning: ${warning}`));
}

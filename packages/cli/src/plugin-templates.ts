import { controller, role, scheduling } from './plugin-templates-control.ts';
import { dns, proxy, volume } from './plugin-templates-services.ts';
import { network, runtime, storage } from './plugin-templates-node.ts';
import { admission, audit, authn, authz } from './plugin-templates-server.ts';

/**
 * What `oarlock plugins new` writes for one slot. In every text `__ID__` stands for the plugin's id (`authn-ldap`), `__Class__` for the same
 * as a class name (`AuthnLdap`), `__NAME__` for the name alone (`ldap`).
 */
export interface PluginTemplate {
  /** Packages that the sources import, besides @oarlock/kernel, @oarlock/spi and zod. */
  readonly dependencies?: readonly string[];
  /** Packages that only the tests import, besides vitest. */
  readonly devDependencies?: readonly string[];
  /** The key under `spec` of a cluster.yaml and how it holds plugins; undefined where a cluster.yaml cannot name one. */
  readonly section?: { readonly key: string; readonly many: boolean; readonly first?: boolean };
  /** An example of its config, as YAML on one line. */
  readonly config: string;
  readonly summary: string;
  /** Rows of the README's table of config keys. */
  readonly keys: readonly string[];
  readonly needs?: string;
  readonly tests: string;
  /** What the author does first, where the package does nothing yet. */
  readonly steps?: readonly string[];
  /** Sources and tests by path. Their imports begin with "|", so that no tool takes them for imports of this package; it is not written. */
  readonly files: Readonly<Record<string, string>>;
}

/** By the slot's name, as it is written in the name of a package. */
export const pluginTemplates: ReadonlyMap<string, PluginTemplate> = new Map(
  Object.entries({ storage, authn, authz, admission, audit, scheduling, controller, runtime, network, volume, proxy, dns, role }),
);

import type { Needs, Plugin } from '@oarlock/kernel/plugin';

/** Holds what the author declared in a plugin whose `needs` were replaced. A symbol, because copies of the plugin keep it. */
const declaredNeeds = Symbol('declaredNeeds');
interface AdaptedPlugin extends Plugin {
  readonly [declaredNeeds]?: Needs;
}

/** Returns the slots that the author of a plugin declared as needed. */
export const declaredNeedsOf = (plugin: AdaptedPlugin): Needs => plugin[declaredNeeds] ?? plugin.needs;

/** Returns a copy of a plugin that receives other slots than its author declared. */
export const withNeeds = (plugin: Plugin, needs: Needs): AdaptedPlugin => ({ ...plugin, [declaredNeeds]: declaredNeedsOf(plugin), needs });

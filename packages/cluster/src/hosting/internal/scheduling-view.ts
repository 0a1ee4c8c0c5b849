import { skip, success, type Handle, type SchedulingPlugin } from '@oarlock/spi/scheduling';

type Run = <T>(call: (plugin: SchedulingPlugin) => T | Promise<T>) => T | Promise<T>;

export interface SchedulingView {
  readonly plugin: SchedulingPlugin;
  /** Passes the scheduler's handle to a new version of the plugin. */
  onSwap(next: SchedulingPlugin): void;
}

/**
 * Returns a scheduling plugin that delegates to the current version. It has every extension point, with a neutral result if the version lacks
 * it, except QueueSort and arguments, which depend on the first version. `run` is for calls that must end before a version is stopped.
 */
export function schedulingView(first: SchedulingPlugin, run: Run, plugin: () => SchedulingPlugin): SchedulingView {
  const handles = new Set<Handle>();
  const { name, queueSort } = first;
  const view: SchedulingPlugin = {
    name,
    get weight() {
      return plugin().weight ?? 1;
    },
    // no eventsToRegister, which is read once: any event may make a pod that it rejected schedulable
    ...(queueSort && { queueSort: (a, b) => (plugin().queueSort ?? queueSort)(a, b) }),
    ...(first.withArgs && { withArgs: (args) => withArgs(first, args, run, plugin) }),
    setHandle(handle) {
      handles.add(handle);
      plugin().setHandle?.(handle);
    },
    podGroup: (pod) => plugin().podGroup?.(pod),
    whenSynced: async (signal) => plugin().whenSynced?.(signal),
    preEnqueue: (pod) => plugin().preEnqueue?.(pod) ?? success,
    preFilter: (state, pod) => plugin().preFilter?.(state, pod) ?? (plugin().filter === undefined ? skip : success),
    addPod: (state, pod, added, node) => plugin().addPod?.(state, pod, added, node),
    removePod: (state, pod, removed, node) => plugin().removePod?.(state, pod, removed, node),
    filter: (state, pod, node) => plugin().filter?.(state, pod, node) ?? success,
    postFilter: async (state, pod, statuses) => plugin().postFilter?.(state, pod, statuses) ?? skip,
    preScore: (state, pod, nodes) => (plugin().score === undefined ? skip : (plugin().preScore?.(state, pod, nodes) ?? success)),
    score: (state, pod, node) => plugin().score?.(state, pod, node) ?? 0,
    normalizeScore: (state, pod, nodes, scores) => plugin().normalizeScore?.(state, pod, nodes, scores),
    reserve: (state, pod, node) => plugin().reserve?.(state, pod, node) ?? success,
    unreserve: (state, pod, node) => plugin().unreserve?.(state, pod, node),
    permit: (state, pod, node) => plugin().permit?.(state, pod, node) ?? success,
    preBindPreFlight: (state, pod, node) =>
      plugin().preBind === undefined ? skip : (plugin().preBindPreFlight?.(state, pod, node) ?? success),
    preBind: async (state, pod, node, context) => run((each) => each.preBind?.(state, pod, node, context) ?? success),
    bind: async (state, pod, node, context) => run((each) => each.bind?.(state, pod, node, context) ?? skip),
    postBind: (state, pod, node) => plugin().postBind?.(state, pod, node),
  };
  return {
    plugin: view,
    onSwap(next) {
      for (const handle of handles) {
        next.setHandle?.(handle);
        handle.requeueRejectedBy(name);
      }
    },
  };
}

/**
 * Applies the arguments of a profile to the current and later versions of the plugin. If a later version rejects the arguments, it fails for each
 * pod.
 */
function withArgs(first: SchedulingPlugin, args: unknown, run: Run, plugin: () => SchedulingPlugin): SchedulingPlugin {
  const configured = new WeakMap<SchedulingPlugin, SchedulingPlugin>();
  const withProfileArgs = (version: SchedulingPlugin): SchedulingPlugin => {
    const known = configured.get(version);
    if (known !== undefined) return known;
    const own = version.withArgs?.(args) ?? version;
    configured.set(version, own);
    if (version !== first) view.onSwap(own);
    return own;
  };
  // the first version rejects invalid arguments when the profile is read
  const started = withProfileArgs(first);
  const view = schedulingView(
    started,
    (call) => run((version) => call(withProfileArgs(version))),
    () => withProfileArgs(plugin()),
  );
  return view.plugin;
}

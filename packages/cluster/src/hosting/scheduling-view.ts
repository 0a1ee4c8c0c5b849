import { skip, success, type SchedulerHandle, type SchedulingPlugin } from '@oarlock/spi/scheduling';

type Run = <T>(call: (plugin: SchedulingPlugin) => T | Promise<T>) => T | Promise<T>;

export interface SchedulingView {
  readonly plugin: SchedulingPlugin;
  /** Hands the scheduler to a version that has come since. */
  attached(next: SchedulingPlugin): void;
}

/**
 * A scheduling plugin by whatever version of it there is. Every extension point is there and says nothing where the plugin has none, but for the
 * queue's order and arguments, which the first version has or has not. `run` is for calls that a version is waited for before it is stopped.
 */
export function schedulingView(first: SchedulingPlugin, run: Run, plugin: () => SchedulingPlugin): SchedulingView {
  const handles = new Set<SchedulerHandle>();
  const { name, queueSort } = first;
  const seen: SchedulingPlugin = {
    name,
    get weight() {
      return plugin().weight ?? 1;
    },
    // no requeueOn, which is read once: anything may help a pod that it refused
    ...(queueSort && { queueSort: (a, b) => (plugin().queueSort ?? queueSort)(a, b) }),
    ...(first.withArgs && { withArgs: (args) => withArgs(first, args, run, plugin) }),
    attach(handle) {
      handles.add(handle);
      plugin().attach?.(handle);
    },
    team: (pod) => plugin().team?.(pod),
    ready: async (signal) => plugin().ready?.(signal),
    preEnqueue: (pod) => plugin().preEnqueue?.(pod) ?? success,
    preFilter: (state, pod) => plugin().preFilter?.(state, pod) ?? (plugin().filter === undefined ? skip : success),
    addPod: (state, pod, added, node) => plugin().addPod?.(state, pod, added, node),
    removePod: (state, pod, removed, node) => plugin().removePod?.(state, pod, removed, node),
    filter: (state, pod, node) => plugin().filter?.(state, pod, node) ?? success,
    postFilter: async (state, pod, refusals) => plugin().postFilter?.(state, pod, refusals) ?? skip,
    preScore: (state, pod, nodes) => (plugin().score === undefined ? skip : (plugin().preScore?.(state, pod, nodes) ?? success)),
    score: (state, pod, node) => plugin().score?.(state, pod, node) ?? 0,
    normalize: (state, pod, nodes, scores) => plugin().normalize?.(state, pod, nodes, scores),
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
    plugin: seen,
    attached(next) {
      for (const handle of handles) {
        next.attach?.(handle);
        handle.reconsider(name);
      }
    },
  };
}

/** The same with the arguments of a profile, also of versions to come: one that refuses them says so for each pod. */
function withArgs(first: SchedulingPlugin, args: unknown, run: Run, plugin: () => SchedulingPlugin): SchedulingPlugin {
  const made = new WeakMap<SchedulingPlugin, SchedulingPlugin>();
  const given = (version: SchedulingPlugin): SchedulingPlugin => {
    const known = made.get(version);
    if (known !== undefined) return known;
    const own = version.withArgs?.(args) ?? version;
    made.set(version, own);
    if (version !== first) view.attached(own);
    return own;
  };
  // what is wrong with them is said when the profile is read
  const started = given(first);
  const view = schedulingView(
    started,
    (call) => run((version) => call(given(version))),
    () => given(plugin()),
  );
  return view.plugin;
}

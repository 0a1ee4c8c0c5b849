import type { Clock } from '@oarlock/kernel/clock';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Front } from '@oarlock/kernel/placement';
import type { Slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';
import { Admission, allow, reaches, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { Authz, type Authorizer } from '@oarlock/spi/authz';
import { Controllers, type Controller, type Watch } from '@oarlock/spi/controller';
import { Scheduling, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { Generation } from './generation.ts';
import { schedulingView } from './scheduling-view.ts';

/** What a plugin of a slot is held by, so that another can take its place while requests run. */
type MakeFront = (first: object, context: PluginContext) => Front;

const fronts = new Map<symbol, MakeFront>([
  [Admission.token, (first, { clock }) => admissionFront(first as AdmissionPlugin, clock)],
  [Authn.token, (first, { clock }) => authnFront(first as Authenticator, clock)],
  [Authz.token, (first, { clock }) => authzFront(first as Authorizer, clock)],
  [Controllers.token, (first, { clock }) => controllerFront(first as Controller, clock)],
  [Scheduling.token, (first, { clock }) => schedulingFront(first as SchedulingPlugin, clock)],
]);

/** Undefined for slots whose plugins cannot be replaced while they run. */
export const frontOf = (slot: Slot<unknown>): MakeFront | undefined => fronts.get(slot.token);

class Swap<T> {
  #now: Generation<T>;
  readonly #clock: Clock;
  constructor(first: T, clock: Clock) {
    this.#now = new Generation(first);
    this.#clock = clock;
  }
  get now(): Generation<T> {
    return this.#now;
  }
  swap(next: T): Promise<void> {
    const before = this.#now;
    this.#now = new Generation(next);
    return before.drained(this.#clock);
  }
}

function admissionFront(first: AdmissionPlugin, clock: Clock): Front {
  const behind = new Swap(first, clock);
  // who has mutated a request validates it, too
  const began = new WeakMap<Cause, Generation<AdmissionPlugin>>();
  const of = ({ cause }: AdmissionRequest): Generation<AdmissionPlugin> => {
    const known = cause && began.get(cause);
    if (known !== undefined && !known.ended) return known;
    if (cause !== undefined) began.set(cause, behind.now);
    return behind.now;
  };
  const instance: AdmissionPlugin = {
    matches: [{ resources: ['*'], operations: ['*'] }],
    idle(operation, resource, subresource) {
      const { value } = behind.now;
      return !reaches(value.matches, { operation, resource, subresource }) || value.idle?.(operation, resource, subresource) === true;
    },
    mutate: (request) =>
      of(request).run((plugin) => (reaches(plugin.matches, request) ? plugin.mutate?.(request) : undefined) ?? request.object ?? allow),
    validate: (request) =>
      of(request).run((plugin) => (reaches(plugin.matches, request) ? plugin.validate?.(request) : undefined) ?? allow),
  };
  return { instance, swap: (next) => behind.swap(next as AdmissionPlugin) };
}

function authnFront(first: Authenticator, clock: Clock): Front {
  const behind = new Swap(first, clock);
  const instance: Authenticator = { authenticate: (credentials) => behind.now.run((plugin) => plugin.authenticate(credentials)) };
  return { instance, swap: (next) => behind.swap(next as Authenticator) };
}

function authzFront(first: Authorizer, clock: Clock): Front {
  const behind = new Swap(first, clock);
  const instance: Authorizer = {
    authorize: (attributes) => behind.now.run((plugin) => plugin.authorize(attributes)),
    rulesFor: (identity, namespace) =>
      behind.now.run((plugin) => plugin.rulesFor?.(identity, namespace) ?? { resources: [], paths: [], incomplete: 'it cannot be listed' }),
  };
  return { instance, swap: (next) => behind.swap(next as Authorizer) };
}

/** Takes up the watches of each new version, which tells it of every object there is. */
function controllerFront(first: Controller, clock: Clock): Front {
  const behind = new Swap(first, clock);
  let take: ((watch: Watch) => () => void) | undefined;
  let leave: (() => void)[] = [];
  const follow = () => {
    const { value } = behind.now;
    if (take === undefined) return;
    leave = value.watches.map(take);
    const left = value.follow?.(take);
    if (left !== undefined) leave.push(left);
  };
  const unfollow = () => {
    for (const each of leave.splice(0)) each();
  };
  const instance: Controller = {
    get name() {
      return behind.now.value.name;
    },
    watches: [],
    ...(first.workers !== undefined && { workers: first.workers }),
    follow(add) {
      take = add;
      follow();
      return () => {
        take = undefined;
        unfollow();
      };
    },
    async reconcile(key, context) {
      const { signal } = context;
      // what it looks things up in is filled first: its watches came after those that the loop waited for
      return behind.now.run(async (controller) => {
        for (const { informer } of controller.watches) if (!informer.synced) await informer.whenSynced(signal);
        return controller.reconcile(key, context);
      });
    },
  };
  return {
    instance,
    swap(next) {
      unfollow();
      const drained = behind.swap(next as Controller);
      follow();
      return drained;
    },
  };
}

function schedulingFront(first: SchedulingPlugin, clock: Clock): Front {
  const behind = new Swap(first, clock);
  const view = schedulingView(
    first,
    (call) => behind.now.run(call),
    () => behind.now.value,
  );
  return {
    instance: view.plugin,
    swap(next) {
      const drained = behind.swap(next as SchedulingPlugin);
      view.attached(next as SchedulingPlugin);
      return drained;
    },
  };
}

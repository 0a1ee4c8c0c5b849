import type { CycleState, NodeToStatus, PodInfo, PreemptionCandidate, Status } from '@oarlock/spi/scheduling';
import { selectVictimsOnNode, type DisruptionBudgetLister } from './candidates.ts';

interface CandidateLimits {
  /** Percentage of the nodes on which preemption may help that must become candidates before the search ends. */
  readonly minCandidateNodesPercentage: number;
  readonly minCandidateNodesAbsolute: number;
}

interface Candidates {
  readonly candidates: readonly PreemptionCandidate[];
  /** The reason why preemption does not help, by node name, for each evaluated node that is not a candidate. */
  readonly nodeToStatus: Map<string, { readonly plugin: string; readonly status: Status }>;
}

/** The preemptor and the nodes on which victims are searched. */
export interface CandidateSearch {
  readonly pod: PodInfo;
  readonly rejections: NodeToStatus;
  readonly candidateLimits: CandidateLimits;
}

/** Finds preemption candidates (upstream's preemption.Evaluator). */
export class PreemptionEvaluator {
  readonly #budgets: DisruptionBudgetLister;
  #nextStartIndex = 0;

  constructor(budgets: DisruptionBudgetLister) {
    this.#budgets = budgets;
  }

  /**
   * Evaluates nodes in dry runs until there are enough candidates, one of which violates no PodDisruptionBudget. Each call starts at the node
   * after the last one evaluated.
   */
  findCandidates(
    state: CycleState,
    { pod, rejections, candidateLimits: { minCandidateNodesAbsolute, minCandidateNodesPercentage } }: CandidateSearch,
  ): Candidates {
    const names = [...rejections].flatMap(([name, { status }]) => (status.code === 'unschedulable' ? [name] : []));
    const enough = Math.max(1, minCandidateNodesAbsolute, Math.floor((names.length * minCandidateNodesPercentage) / 100));
    const candidates: PreemptionCandidate[] = [];
    const nodeToStatus: Candidates['nodeToStatus'] = new Map();
    let hasNonViolatingCandidate = false;
    let evaluated = 0;
    for (; evaluated < names.length && !(hasNonViolatingCandidate && candidates.length >= enough); evaluated++) {
      const name = names[(this.#nextStartIndex + evaluated) % names.length] ?? '';
      const dryRun = state.dryRun?.(pod, name);
      if (dryRun === undefined) continue;
      try {
        const result = selectVictimsOnNode(dryRun, pod, this.#budgets);
        if ('victims' in result) {
          candidates.push(result);
          hasNonViolatingCandidate ||= result.pdbViolations === 0;
        } else nodeToStatus.set(name, { plugin: 'DefaultPreemption', status: result });
      } finally {
        dryRun.revert();
      }
    }
    this.#nextStartIndex = names.length === 0 ? 0 : (this.#nextStartIndex + evaluated) % names.length;
    return { candidates, nodeToStatus };
  }
}

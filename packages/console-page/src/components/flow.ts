export interface FlowBox {
  readonly id: string;
  readonly label: string;
  readonly isQuestioned?: boolean;
}
export interface FlowEdge {
  readonly from: string;
  readonly to: string;
  /** `some`: only a part of what the boxes stand for. `none`: no flow, drawn because it is in question. */
  readonly reach: 'all' | 'some' | 'none';
  readonly isQuestioned?: boolean;
}

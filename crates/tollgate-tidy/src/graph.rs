//! A directed graph of files. Finds its cycles, and a small set of edges without which the graph has no
//! cycle.

use std::collections::{BTreeMap, BTreeSet};

/// The names of another file that one file uses, with the line numbers of the uses.
pub type Names = BTreeMap<String, BTreeSet<usize>>;

/// A directed graph. Nodes are numbers from 0. An edge has the names that one file uses of another file.
#[derive(Debug, Default)]
pub struct Graph {
    edges: Vec<BTreeMap<usize, Names>>,
}

impl Graph {
    /// Makes a graph without edges.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { edges: vec![BTreeMap::new(); nodes] }
    }

    /// Adds `name` to the edge between two nodes. Ignores an edge from a node to itself.
    pub fn add(&mut self, from: usize, to: usize, name: &str, line: usize) {
        if from != to {
            self.edges[from].entry(to).or_default().entry(name.to_owned()).or_default().insert(line);
        }
    }

    /// Returns the edges that leave a node.
    #[must_use]
    pub fn from(&self, node: usize) -> &BTreeMap<usize, Names> {
        &self.edges[node]
    }

    /// Returns the edges between nodes of `part`, as (from, to, names).
    pub fn within<'graph>(
        &'graph self,
        part: &'graph [usize],
    ) -> impl Iterator<Item = (usize, usize, &'graph Names)> + 'graph {
        part.iter().flat_map(move |&from| {
            let inside = self.edges[from].iter().filter(|(to, _)| part.contains(to));
            inside.map(move |(&to, names)| (from, to, names))
        })
    }

    /// Returns the strongly connected components of more than one node, the largest first. The nodes of each
    /// are in order.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut search = Search::new(self);
        for node in 0..self.edges.len() {
            if search.index[node].is_none() {
                search.visit(node);
            }
        }
        let mut cycles = search.components;
        cycles.retain(|component| component.len() > 1);
        for component in &mut cycles {
            component.sort_unstable();
        }
        cycles.sort_by_key(|component| (std::cmp::Reverse(component.len()), component[0]));
        cycles
    }

    /// Returns the edges to cut so that a component has no cycle. The edges have few names, but not always
    /// the fewest possible.
    ///
    /// The function orders the nodes so that edges that point backwards have few names (Eades, Lin and Smyth
    /// 1993). After that, the function moves nodes to better places in the order, until no move helps.
    #[must_use]
    pub fn cut(&self, component: &[usize]) -> Vec<(usize, usize)> {
        let mut order = self.greedy_order(component);
        while let Some(better) = self.moved(&order) {
            order = better;
        }
        self.backward(&order).map(|(from, to, _)| (from, to)).collect()
    }

    /// Returns the edges against the order. An earlier node may use later nodes, so these edges lead from a
    /// later node to an earlier one.
    fn backward<'graph>(
        &'graph self,
        order: &'graph [usize],
    ) -> impl Iterator<Item = (usize, usize, &'graph Names)> + 'graph {
        let place = |node| order.iter().position(|&other| other == node);
        self.within(order).filter(move |&(from, to, _)| place(from) > place(to))
    }

    fn cost(&self, order: &[usize]) -> usize {
        self.backward(order).map(|(_, _, names)| names.len()).sum()
    }

    fn greedy_order(&self, component: &[usize]) -> Vec<usize> {
        let mut left = component.to_vec();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let (out, into) = self.weights(&left);
            let balance = |node: &usize| out[node].cast_signed().saturating_sub(into[node].cast_signed());
            if let Some(sink) = left.iter().copied().find(|node| out[node] == 0) {
                last.push(sink);
                left.retain(|&node| node != sink);
            } else if let Some(next) = left.iter().copied().max_by_key(balance) {
                first.push(next);
                left.retain(|&node| node != next);
            }
        }
        first.extend(last.into_iter().rev());
        first
    }

    fn weights(&self, part: &[usize]) -> (BTreeMap<usize, usize>, BTreeMap<usize, usize>) {
        let mut out = part.iter().map(|&node| (node, 0)).collect::<BTreeMap<_, _>>();
        let mut into = out.clone();
        for (from, to, names) in self.within(part) {
            *out.entry(from).or_default() += names.len();
            *into.entry(to).or_default() += names.len();
        }
        (out, into)
    }

    /// Returns the order after the single move that saves the most names. `None`: no move saves a name.
    fn moved(&self, order: &[usize]) -> Option<Vec<usize>> {
        let places = 0..order.len();
        let moves = places.clone().flat_map(|from| places.clone().map(move |to| (from, to)));
        let orders = moves.map(|(from, to)| {
            let mut moved = order.to_vec();
            let node = moved.remove(from);
            moved.insert(to, node);
            moved
        });
        let best = orders.min_by_key(|order| self.cost(order))?;
        (self.cost(&best) < self.cost(order)).then_some(best)
    }
}

/// Tarjan's search for strongly connected components (1972).
struct Search<'graph> {
    graph: &'graph Graph,
    index: Vec<Option<usize>>,
    lowest: Vec<usize>,
    stack: Vec<usize>,
    seen: usize,
    components: Vec<Vec<usize>>,
}

impl<'graph> Search<'graph> {
    fn new(graph: &'graph Graph) -> Self {
        let nodes = graph.edges.len();
        Self {
            graph,
            index: vec![None; nodes],
            lowest: vec![0; nodes],
            stack: Vec::new(),
            seen: 0,
            components: Vec::new(),
        }
    }

    fn visit(&mut self, node: usize) {
        let index = self.seen;
        self.seen += 1;
        self.index[node] = Some(index);
        self.lowest[node] = index;
        self.stack.push(node);
        for &next in self.graph.edges[node].keys() {
            match self.index[next] {
                None => {
                    self.visit(next);
                    self.lowest[node] = self.lowest[node].min(self.lowest[next]);
                }
                Some(next_index) if self.stack.contains(&next) => {
                    self.lowest[node] = self.lowest[node].min(next_index);
                }
                Some(_) => {}
            }
        }
        if self.lowest[node] == index
            && let Some(start) = self.stack.iter().position(|&other| other == node)
        {
            self.components.push(self.stack.split_off(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize, usize)]) -> Graph {
        let nodes = edges.iter().map(|&(from, to, _)| from.max(to) + 1).max().unwrap_or(0);
        let mut graph = Graph::new(nodes);
        for &(from, to, names) in edges {
            for name in 0..names {
                graph.add(from, to, &format!("name{name}"), 1);
            }
        }
        graph
    }

    #[test]
    fn components_of_one_node_are_no_cycles() {
        assert_eq!(graph(&[(0, 1, 1), (1, 2, 1), (0, 2, 1), (2, 2, 1)]).cycles(), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn two_cycles_that_an_edge_joins_are_two() {
        let graph = graph(&[(0, 1, 1), (1, 0, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (4, 2, 1)]);
        assert_eq!(graph.cycles(), [vec![2, 3, 4], vec![0, 1]]);
    }

    #[test]
    fn the_cut_takes_the_edge_with_the_fewest_names() {
        let graph = graph(&[(0, 1, 3), (1, 2, 3), (2, 3, 3), (3, 0, 1)]);
        assert_eq!(graph.cut(&[0, 1, 2, 3]), [(3, 0)]);
    }

    #[test]
    fn nothing_is_left_in_a_cycle_after_the_cut() {
        let edges = [(0, 1, 2), (1, 2, 1), (2, 0, 4), (2, 3, 1), (3, 1, 2), (3, 4, 1), (4, 0, 1), (0, 4, 5)];
        let cut = graph(&edges).cut(&[0, 1, 2, 3, 4]);
        let left = edges.iter().copied().filter(|&(from, to, _)| !cut.contains(&(from, to)));
        assert_eq!(graph(&left.collect::<Vec<_>>()).cycles(), Vec::<Vec<usize>>::new());
    }
}

//! Tree-structured Parzen estimation: try what looks like the best trials and unlike the others.
//!
//! The trials are parted in two, the best and the rest. Each part becomes a density over the space, l and g: a kernel around
//! every trial, and one kernel that is even everywhere, so that nothing is ever ruled out. Points are drawn from l, and the one
//! with the largest l/g is tried (Bergstra et al. 2011; kernels over all leaves together, as in BOHB, so that what matters
//! only in company is seen).
//!
//! Kernels are logistic and cut off at both ends of [0, 1]: distribution function and inverse are a line each, so a draw is one
//! number of the counter-based generator and never a loop of rejections. Written here because the known crates draw from
//! generators that advance, and prune inside a running objective, where ours pauses a run and lets it climb after days.

use ruge_kg::random::{Stream, below, draw, unit};

use super::sample::is_new;
use super::space::{Point, Space};
use super::{Domain, State, Trial};

/// Draws of candidates.
const CANDIDATES: Stream = Stream(0x803);
/// How many are drawn for one that is tried.
const DRAWN: u64 = 64;
/// Results of a rung below which there is nothing to learn from it, however few leaves there are.
const LEAST: usize = 8;
/// The share of trials that count as the best.
const BEST: f64 = 0.15;
/// The width of kernels around a single trial, as a share of the range.
const WIDTH: f64 = 0.2;

/// The point to try; `None` where there is nothing to learn from yet, or nothing new was drawn.
pub fn propose(space: &Space, trials: &[Trial]) -> Option<Point> {
    let (best, rest) = parted(space, trials)?;
    let mut drawn: Vec<(f64, Point)> = (0..DRAWN)
        .map(|candidate| {
            let units = best.draw(space.settings.seed, trials.len() as u64, candidate);
            // Judged where it would be tried, not where it was drawn.
            let point = space.point(&units);
            let units = places(space, &point);
            (best.log_density(&units) - rest.log_density(&units), point)
        })
        .collect();
    // Of equals the one drawn first: the sort is stable.
    drawn.sort_by(|a, b| b.0.total_cmp(&a.0));
    drawn.into_iter().map(|(_, point)| point).find(|point| is_new(trials, point))
}

fn places(space: &Space, point: &Point) -> Vec<f64> {
    space.parameters.iter().zip(point).map(|(parameter, value)| parameter.domain.unit(value)).collect()
}

/// The best and the rest. The best are chosen at the longest rung that enough trials have passed; those that never reached it
/// were left behind by others or failed, and are among the rest: forgetting them would mean trying their like again.
fn parted<'s>(space: &'s Space, trials: &[Trial]) -> Option<(Density<'s>, Density<'s>)> {
    let enough = LEAST.max(space.parameters.len() + 3);
    let passed = |trial: &Trial, rung: usize| trial.state != State::Failed && trial.rungs.len() > rung;
    let highest = trials.iter().map(|trial| trial.rungs.len()).max()?;
    let rung = (0..highest).rev().find(|&rung| trials.iter().filter(|trial| passed(trial, rung)).count() >= enough)?;
    let over = trials.iter().filter(|trial| trial.state != State::Running);
    let (mut ranked, behind): (Vec<&Trial>, Vec<&Trial>) = over.partition(|trial| passed(trial, rung));
    ranked.sort_by(|a, b| b.rungs[rung].valid_mrr.total_cmp(&a.rungs[rung].valid_mrr).then(a.number.cmp(&b.number)));
    let all = ranked.len() + behind.len();
    let best = ((BEST * all as f64).ceil() as usize).clamp(2, ranked.len() / 2);
    ranked.extend(behind);
    let density =
        |trials: &[&Trial]| Density::new(space, trials.iter().map(|trial| places(space, &trial.point)).collect());
    Some((density(&ranked[..best]), density(&ranked[best..])))
}

/// A mixture of kernels around trials and one that is even.
struct Density<'s> {
    domains: Vec<&'s Domain>,
    centres: Vec<Vec<f64>>,
    /// Of kernels on leaves whose neighbours are alike.
    width: f64,
    /// On the others: the share of a kernel that is spread over all values.
    spread: f64,
}

impl<'s> Density<'s> {
    fn new(space: &'s Space, centres: Vec<Vec<f64>>) -> Self {
        let domains: Vec<&Domain> = space.parameters.iter().map(|parameter| &parameter.domain).collect();
        // Scott's rule: the more trials, the narrower, and in more dimensions less so.
        let shrink = (centres.len().max(1) as f64).powf(-1.0 / (domains.len() as f64 + 4.0));
        Self { domains, centres, width: WIDTH * shrink, spread: 0.5 * shrink }
    }

    /// ln of the density at a place.
    fn log_density(&self, units: &[f64]) -> f64 {
        let kernel = |centre: &Vec<f64>| -> f64 {
            let of = |((domain, at), centre): ((&&Domain, &f64), &f64)| self.kernel(domain, *at, *centre);
            self.domains.iter().zip(units).zip(centre).map(of).product()
        };
        let sum: f64 = self.centres.iter().map(kernel).sum::<f64>() + 1.0;
        (sum / (self.centres.len() as f64 + 1.0)).ln()
    }

    /// The density of one leaf's kernel; its mean over [0, 1] is 1.
    fn kernel(&self, domain: &Domain, at: f64, centre: f64) -> f64 {
        if domain.is_ordered() {
            let logistic = Logistic::new(centre, self.width);
            return logistic.density(at);
        }
        let count = domain.count().unwrap_or(1) as f64;
        let same = (at * count) as u64 == (centre * count) as u64;
        self.spread + if same { (1.0 - self.spread) * count } else { 0.0 }
    }

    /// A place drawn from the density.
    fn draw(&self, seed: u64, trial: u64, candidate: u64) -> Vec<f64> {
        let leaves = self.domains.len() as u64;
        let chance = |at: u64| draw(seed, CANDIDATES, trial, candidate * (2 * leaves + 1) + at);
        let centre = self.centres.get(below(chance(0), self.centres.len() as u64 + 1) as usize);
        let place = |(leaf, domain): (u64, &&Domain)| {
            let (first, second) = (unit(chance(2 * leaf + 1)), unit(chance(2 * leaf + 2)));
            match centre.map(|centre| centre[leaf as usize]) {
                None => first,
                Some(centre) if domain.is_ordered() => Logistic::new(centre, self.width).place(first),
                Some(centre) => {
                    if second < self.spread {
                        first
                    } else {
                        centre
                    }
                }
            }
        };
        (0..leaves).zip(&self.domains).map(place).collect()
    }
}

/// A logistic distribution cut off at 0 and 1.
struct Logistic {
    centre: f64,
    scale: f64,
    /// What lies below 0, and between 0 and 1.
    below: f64,
    inside: f64,
}

impl Logistic {
    /// By its centre and its standard deviation before it is cut.
    fn new(centre: f64, deviation: f64) -> Self {
        let scale = deviation * 3f64.sqrt() / std::f64::consts::PI;
        let share = |x: f64| 1.0 / (1.0 + (-(x - centre) / scale).exp());
        Self { centre, scale, below: share(0.0), inside: share(1.0) - share(0.0) }
    }

    fn density(&self, x: f64) -> f64 {
        let e = (-((x - self.centre) / self.scale).abs()).exp();
        e / (self.scale * (1.0 + e) * (1.0 + e)) / self.inside
    }

    /// The place below which a share lies.
    fn place(&self, share: f64) -> f64 {
        let whole = self.below + share * self.inside;
        (self.centre + self.scale * (whole / (1.0 - whole)).ln()).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rung, sample};
    use super::*;

    fn space(text: &str, method: &str, seed: u64) -> Space {
        Space::parse(&format!("{text}\n[search]\nmethod = \"{method}\"\nseed = {seed}\n"), "x", None).unwrap()
    }

    /// The best of so many trials of a function.
    fn best_of(space: &Space, count: usize, quality: &dyn Fn(&Point) -> f64) -> f64 {
        let mut trials: Vec<Trial> = Vec::new();
        for number in 1..=count {
            let mut trial = Trial::new(number, sample::propose(space, &trials).unwrap());
            trial.rungs.push(Rung { epochs: 1, valid_mrr: quality(&trial.point), best_epoch: 1 });
            trial.state = State::Finished;
            trials.push(trial);
        }
        super::super::ranked(&trials)[0].valid_mrr().unwrap()
    }

    #[test]
    fn kernels_are_densities() {
        for (centre, width) in [(0.0, 0.2), (0.5, 0.05), (0.9, 0.3), (1.0, 0.01)] {
            let logistic = Logistic::new(centre, width);
            let steps = 20_000;
            let mut sum = 0.0;
            for step in 0..steps {
                let x = (f64::from(step) + 0.5) / f64::from(steps);
                sum += logistic.density(x) / f64::from(steps);
                // The inverse of the distribution function, against the sum so far.
                if step % 4_999 == 0 && sum > 1e-3 && sum < 0.999 {
                    assert!((logistic.place(sum) - x).abs() < 2e-3, "{centre} {width} at {x}: {}", logistic.place(sum));
                }
            }
            assert!((sum - 1.0).abs() < 1e-3, "{centre} {width}: {sum}");
        }
    }

    #[test]
    fn a_mixture_counted_by_hand() {
        let space = space("model.name = [\"complex\", \"hole\"]\nseed = [1, 2]", "tpe", 0);
        // Two trials at (complex, 1): n = 2, d = 2, so kernels shrink by 2^(−1/6).
        let density = Density::new(&space, vec![vec![0.25, 0.25]; 2]);
        let shrink = 2f64.powf(-1.0 / 6.0);
        assert!((density.width - 0.2 * shrink).abs() < 1e-12 && (density.spread - 0.5 * shrink).abs() < 1e-12);
        let (same, other) = (0.5 * shrink + (1.0 - 0.5 * shrink) * 2.0, 0.5 * shrink);
        // Seeds rise, so they are ordered: logistic, scale 0.2 · shrink · √3/π around 0.25.
        let scale = 0.2 * shrink * 3f64.sqrt() / std::f64::consts::PI;
        let share = |x: f64| 1.0 / (1.0 + (-(x - 0.25) / scale).exp());
        let at_centre = 1.0 / (4.0 * scale) / (share(1.0) - share(0.0));
        assert!((density.log_density(&[0.25, 0.25]).exp() - (2.0 * same * at_centre + 1.0) / 3.0).abs() < 1e-9);
        assert!((density.log_density(&[0.75, 0.25]).exp() - (2.0 * other * at_centre + 1.0) / 3.0).abs() < 1e-9);
    }

    #[test]
    fn draws_follow_the_density() {
        let space =
            space("model.name = [\"complex\", \"hole\"]\noptimizer.entity-rate = { low = 0.0, high = 1.0 }", "tpe", 5);
        let density = Density::new(&space, vec![vec![0.75, 0.2]]);
        let drawn: Vec<Vec<f64>> = (0..4000).map(|candidate| density.draw(5, 9, candidate)).collect();
        let share = |is: &dyn Fn(&[f64]) -> bool| drawn.iter().filter(|units| is(units)).count() as f64 / 4000.0;
        // Half from the even kernel; of the other, spread/2 + (1 − spread) lies at the trial's value.
        let expected = 0.5 * 0.5 + 0.5 * (1.0 - density.spread / 2.0);
        assert!((share(&|units| units[0] >= 0.5) - expected).abs() < 0.03);
        let near = Logistic::new(0.2, density.width);
        let (mut low, steps) = (0.0, 1000);
        (0..steps).for_each(|at| low += near.density(0.4 * (f64::from(at) + 0.5) / 1000.0) * 0.4 / 1000.0);
        assert!((share(&|units| units[1] < 0.4) - (0.5 * 0.4 + 0.5 * low)).abs() < 0.03);
    }

    #[test]
    fn it_finds_better_points_than_chance() {
        // A narrow peak in a rate and a dimension, and one of four names that matters.
        let text = "model.name = [\"complex\", \"distmult\", \"hole\", \"rotate\"]\n\
                    model.dimension = { low = 8, high = 512, scale = \"log\" }\n\
                    optimizer.entity-rate = { low = 1e-3, high = 10.0, scale = \"log\" }";
        let quality = |point: &Point| {
            let dimension = (point[0].as_integer().unwrap() as f64 / 100.0).ln();
            let name = if point[1].as_str() == Some("hole") { 0.0 } else { 0.5 };
            let rate = (point[2].as_float().unwrap() / 0.3).ln();
            -(dimension * dimension + rate * rate + name)
        };
        let median = |method: &str| {
            let mut found: Vec<f64> = (0..15).map(|seed| best_of(&space(text, method, seed), 40, &quality)).collect();
            found.sort_by(f64::total_cmp);
            -found[7]
        };
        let (tpe, random, sobol) = (median("tpe"), median("random"), median("sobol"));
        assert!(
            tpe < 0.5 * random && tpe < 0.5 * sobol,
            "distance from the best: tpe {tpe}, random {random}, sobol {sobol}"
        );
    }

    #[test]
    fn failures_are_avoided_and_long_rungs_believed() {
        let space = space("optimizer.entity-rate = { low = 0.0, high = 1.0 }", "tpe", 1);
        let trial = |number: usize, rate: f64, rungs: &[f64], state: State| {
            let rungs = rungs.iter().map(|&valid_mrr| Rung { epochs: 1, valid_mrr, best_epoch: 1 }).collect();
            Trial { rungs, state, ..Trial::new(number, vec![rate.into()]) }
        };
        // After a short rung large rates look best, after a long one small ones do; the largest fail.
        let mut trials: Vec<Trial> = (0..10)
            .map(|at| f64::from(at) / 10.0)
            .enumerate()
            .map(|(at, rate)| trial(at + 1, rate, &[rate, 1.0 - rate], State::Paused))
            .collect();
        let at = |trials: &[Trial]| propose(&space, trials).unwrap()[0].as_float().unwrap();
        assert!(at(&trials) < 0.4, "{}", at(&trials));
        trials.iter_mut().for_each(|trial| trial.rungs.truncate(1));
        assert!(at(&trials) > 0.6, "{}", at(&trials));
        (0..8).for_each(|more| trials.push(trial(11 + more, 0.92 + more as f64 * 0.01, &[], State::Failed)));
        assert!(at(&trials) < 0.9, "{}", at(&trials));
        trials.truncate(7);
        assert!(propose(&space, &trials).is_none(), "too few to learn from");
    }
}
